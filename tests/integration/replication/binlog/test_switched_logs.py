"""A log that is switched off and on again loses no record silently, and its leftovers are deleted."""

import pytest

from sexton.replication.errors import RecordsTrimmed
from sexton.replication.journal.replaying import FollowerState as Follower
from tests.integration.replication.binlog_instance import DB, INTERVAL, BinlogInstance


def old(binlogs: BinlogInstance) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return binlogs.now - 60_000


def test_records_skipped_while_a_log_is_off_count_as_trimmed(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(None)
    for seq in range(1, 11):
        binlogs.commit(seq, orders={"p1": seq})
    binlogs.service.consumers.register(binlogs.instance, "sync", DB, "orders", 5)
    binlogs.configure_log(enabled=False)
    assert binlogs.commit(11, orders={"p1": 11}).disabled == 1
    binlogs.configure_log(None)
    binlogs.commit(12, orders={"p1": 12})

    for table in ("", "orders"):
        with pytest.raises(RecordsTrimmed, match="first available is 12"):
            binlogs.service.records.read(binlogs.instance, DB, table, 5)
    with pytest.raises(RecordsTrimmed):
        binlogs.service.consumers.register(binlogs.instance, "late", DB, "orders", 0)


def test_a_log_switched_off_without_a_commit_keeps_all(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for seq in range(1, 11):
        binlogs.commit(seq, tables=["orders"])
    binlogs.configure_log(10, enabled=False)
    binlogs.configure_log(10, from_seq=10)

    assert binlogs.readable_seqs(after=5) == [6, 7, 8, 9, 10]


def test_the_start_of_a_log_refuses_no_record_in_transit(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(None)
    binlogs.commit(1, orders={"p1": 1})
    binlogs.configure_log(None, from_seq=10)  # said again, as an owner does at its start
    binlogs.configure_log(enabled=False)
    binlogs.configure_log(None, table="orders")
    binlogs.configure_log(None, table="users", from_seq=20)

    assert [binlogs.commit(seq, orders={"p1": seq}, users={"p2": seq}).stored for seq in (5, 15, 25)] == [1, 1, 1]
    assert (binlogs.readable_seqs("orders"), binlogs.readable_seqs("users")) == ([1, 5, 15, 25], [25])


@pytest.mark.parametrize("then", ["off", "off and on", "the database's"])
def test_leftovers_of_a_table_log_are_cut_on_backends(binlogs: BinlogInstance, then: str) -> None:
    binlogs.configure_log(enabled=False)
    binlogs.configure_log(10, table="orders")
    binlogs.place("t1", "b1")
    binlogs.commit(1, orders={"p1": 3})
    if then == "the database's":
        binlogs.configure_log(10)
    else:
        binlogs.configure_log(10, table="orders", enabled=False)
    if then == "off and on":
        binlogs.configure_log(10, table="orders")

    for _ in range(3):
        binlogs.cut_expired(INTERVAL)
    binlogs.report_whole("t1", "b1", 100)

    assert (binlogs.row_counts(), binlogs.granted_cuts("b1")) == ((0, 0, 0), {"t1.b1": 3})


def test_followers_match_the_leader_of_a_switched_log(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(enabled=False)
    binlogs.configure_log(None, table="orders")
    followers = [Follower(), Follower()]
    for seq in (1, 2, 3):
        binlogs.commit(seq, orders={"p1": seq})
    binlogs.configure_log(None, table="orders", enabled=False)
    binlogs.commit(4, orders={"p1": 4})
    binlogs.configure_log(None, table="orders")
    for follower in followers:
        for seq in (1, 2, 3, 4):
            follower.record(DB, seq, ["orders"])
    for entry in binlogs.journal():
        followers[0].apply(entry)
    followers[1].load_snapshot(binlogs.service.replicas.snapshot(binlogs.instance))

    assert [f.databases[DB].log("orders") for f in followers] == [binlogs.readable_seqs("orders")] * 2 == [[]] * 2
