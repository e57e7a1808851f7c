"""A consumer blocks the cut of each log that it reads, and of no other."""

from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance

DAY = 86_400


def old(binlogs: BinlogInstance) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return binlogs.now - 60_000


def test_a_consumer_of_two_logs_blocks_both(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for seq in range(1, 21):
        binlogs.commit(seq, old(binlogs), orders={"p1": seq}, users={"p2": seq})
    for table, has in (("orders", 2), ("users", 15)):
        binlogs.service.consumers.register(SHOP, "sync", DB, table, 0)
        binlogs.service.consumers.acknowledge(SHOP, "sync", DB, table, has)

    binlogs.cut_expired()

    assert (binlogs.log().watermark, binlogs.log().held) == (2, {"sync": 2})


def test_a_log_that_is_off_is_not_blocked(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.commit(1, old(binlogs))
    binlogs.service.consumers.register(SHOP, "c", DB, "", 0)
    binlogs.cut_expired()
    assert binlogs.log().held == {"c": 0}

    binlogs.configure_log(10, enabled=False)

    assert (binlogs.log().held, binlogs.log().held_since) == ({}, None)


def test_a_table_without_records_blocks_no_other(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for seq in range(1, 6):
        binlogs.commit(seq, old(binlogs), tables=["busy"])
    binlogs.configure_log(10, table="new")
    binlogs.service.consumers.register(SHOP, "r", DB, "new")

    binlogs.cut_expired()

    assert binlogs.log().watermark == 5
