"""A log is cut up to its expired records (B01 to B06, B15 to B18, B31), a very large cut only after an approval.

A consumer blocks the cut of each log that it reads, and of no other.
"""

import re

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import BinlogSettings, StoredRecord
from sexton.replication.binlog.policy import parse_ttl
from sexton.replication.binlog.sql import cutting
from sexton.replication.errors import RecordsTrimmed, UnknownLog
from sexton.replication.journal.model import Op
from tests.integration.replication.binlog_instance import DB, INTERVAL, BinlogInstance, new_instance, upsert

DAY = 86_400


def test_b01_records_as_old_as_the_ttl_are_cut(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    t0 = binlogs.now - 151_000
    for seq, after in ((1, 0), (2, 50), (3, 150)):
        binlogs.commit(seq, t0 + after * 1000)

    assert binlogs.cut_expired().records == 2
    assert (binlogs.log().watermark, binlogs.readable_seqs()) == (2, [3])
    with pytest.raises(RecordsTrimmed) as told:
        binlogs.service.records.read(binlogs.instance, DB, after=1)
    assert told.value.first == 3


def test_b03_no_row_is_written_without_expired_records(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    binlogs.place("t1", "b1")
    binlogs.commit(1, orders={"p1": 3})

    report = binlogs.cut_expired()

    assert (report.cut, report.records) == (0, 0)
    assert binlogs.journal(Op.GC_BINLOG)[1:] == []  # the first says where the log begins
    assert (binlogs.replica("t1", "b1").desired, binlogs.granted_cuts("b1")) == (-1, {})


def test_b04_b06_a_database_is_cut_as_one_with_every_upsert(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for tablet, part, table in (("t1", "p1", "orders"), ("t2", "p2", "users"), ("t3", "p3", "orders")):
        binlogs.place(tablet, "b1", part=part, table=table)
    old = binlogs.now - 60_000
    binlogs.commit(1, old, orders={"p1": 3, "p3": 4})
    binlogs.commit(2, old, orders={"p1": 5}, users={"p2": 7})

    binlogs.cut_expired()

    (said,) = binlogs.journal(Op.GC_BINLOG)[-1].body["tombstones"]
    assert said == {"dbBinlogTombstone": True, "dbId": DB, "tableIds": ["orders", "users"], "commitSeq": 2}
    assert [binlogs.replica(tablet, "b1").desired for tablet in ("t1", "t2", "t3")] == [5, 7, 4]


def test_b05_tables_are_cut_each_by_its_own_ttl(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(enabled=False)
    binlogs.configure_log(10, table="orders")
    binlogs.configure_log(DAY, table="users")
    old = binlogs.now - 60_000
    binlogs.commit(1, old, orders={"p1": 3}, users={"p2": 3})
    binlogs.commit(2, old, users={"p2": 4})

    binlogs.cut_expired()

    assert (binlogs.readable_seqs("orders"), binlogs.readable_seqs("users")) == ([], [1, 2])
    (said,) = binlogs.journal(Op.GC_BINLOG)[-1].body["tombstones"]
    assert said == {"dbBinlogTombstone": False, "dbId": DB, "tableIds": ["orders"], "commitSeq": 1}
    assert binlogs.row_counts() == (2, 2, 2)
    with pytest.raises(UnknownLog):
        binlogs.service.records.read(binlogs.instance, DB)


def test_b15_no_ttl_retains_all_and_zero_retains_none(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(parse_ttl("forever"))
    binlogs.commit(1, binlogs.now - 3_650 * DAY * 1000)
    binlogs.commit(2, 1)

    assert binlogs.cut_expired().cut == 0

    binlogs.configure_log(0)
    binlogs.cut_expired(INTERVAL)
    assert (binlogs.log().watermark, binlogs.readable_seqs()) == (2, [])
    with pytest.raises(BadInput, match="forever"):
        parse_ttl(-1)


def test_b17_records_and_bytes_limit_a_log(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(max_history_nums=3)
    for seq in range(1, 6):
        binlogs.commit(seq, orders={"p1": seq})
    binlogs.cut_expired()
    assert binlogs.readable_seqs() == [3, 4, 5]

    size = (binlogs.log().bytes - binlogs.log().gone_bytes) // 3
    binlogs.configure_log(max_bytes=2 * size)  # three are one too many: it stops as soon as the rest fits
    binlogs.cut_expired(INTERVAL)
    assert binlogs.readable_seqs() == [4, 5]


def test_b18_a_consumer_blocks_the_cut_and_is_named(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    old = binlogs.now - 200_000
    for seq in (50, 60, 80):
        binlogs.commit(seq, old)
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=0)
    binlogs.service.consumers.acknowledge(binlogs.instance, "lisbon", DB, "", 50)

    binlogs.cut_expired()

    assert (binlogs.log().watermark, binlogs.readable_seqs()) == (50, [60, 80])
    assert binlogs.log().held == {"lisbon": 50}

    binlogs.configure_log(100, enabled=False)
    assert (binlogs.log().held, binlogs.log().held_since) == ({}, None)


def test_b31_a_clock_that_jumps_cuts_nothing(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(DAY)
    binlogs.commit(1)
    binlogs.cut_expired()

    report = binlogs.cut_expired(2 * DAY)

    assert re.search(r"moved forward by 1728\d\d s", report.refused)
    assert binlogs.readable_seqs() == [1]


def test_one_large_table_does_not_stop_cuts_of_others(binlogs: BinlogInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "RECORDS_AT_ONCE", 2)
    binlogs.configure_log(enabled=False)
    for table in ("orders", "users"):
        binlogs.configure_log(10, table=table)
    old = binlogs.now - 60_000
    for seq in range(1, 8):
        binlogs.commit(seq, old, tables=["orders", "users"] if seq == 7 else ["orders"])

    report = binlogs.cut_expired()

    assert (binlogs.readable_seqs("orders"), binlogs.readable_seqs("users"), report.records) == ([], [], 8)
    assert [t["commitSeq"] for e in binlogs.journal() for t in e.body["tombstones"]] == [2, 7, 4, 6, 7]


def test_odd_timestamps_follow_the_record_before(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    old, new = binlogs.now - 300_000, binlogs.now
    binlogs.commit(1, old)
    binlogs.commit(2, 0)  # as old as the one before
    binlogs.commit(3, new)
    binlogs.commit(4, old)  # it comes behind one that is not expired

    binlogs.cut_expired()

    assert binlogs.readable_seqs() == [3, 4]


def old(binlogs: BinlogInstance) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return binlogs.now - 60_000


def test_versions_count_even_if_the_table_is_not_named(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.place("t1", "b1")
    binlogs.report_whole("t1", "b1", 100)
    unnamed = StoredRecord(commit_seq=1, timestamp=old(binlogs), data=upsert(orders={"p1": 3}))
    binlogs.service.records.add(binlogs.instance, DB, [unnamed])

    binlogs.cut_expired()

    assert binlogs.granted_cuts("b1") == {"t1.b1": 3}


def test_runs_that_are_always_far_apart_still_cut(db: Database) -> None:
    binlogs = new_instance(db, BinlogSettings(interval_seconds=20))
    binlogs.configure_log(10)
    binlogs.commit(1)
    said = [bool(binlogs.cut_expired(700).refused) for _ in range(4)]

    assert said == [False, True, False, True]
    assert binlogs.readable_seqs() == []


@pytest.fixture
def waits(db: Database) -> BinlogInstance:
    """A log of which records 1 to 5 wait for approval, and the next expires within the interval."""
    binlogs = new_instance(db, BinlogSettings(free_records=3))
    binlogs.configure_log(DAY)
    for seq in range(1, 6):
        binlogs.commit(seq, binlogs.now - 2 * DAY * 1000)
    binlogs.commit(6, binlogs.now - DAY * 1000 + 60_000)
    binlogs.commit(7)
    binlogs.cut_expired()
    assert binlogs.log().awaiting_seq == 5
    return binlogs


def test_only_the_shown_cut_is_approved(waits: BinlogInstance) -> None:
    assert waits.readable_seqs() == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(BadInput, match="up to 5 waits, none up to 6"):
        waits.service.configs.approve(waits.instance, DB, upto=6)
    assert waits.cut_expired(INTERVAL).waiting == 1  # record 6 has expired, too
    approved = waits.service.configs.approve(waits.instance, DB, upto=5)
    with pytest.raises(BadInput, match="waits for approval"):
        waits.service.configs.approve(waits.instance, DB, upto=5)
    waits.cut_expired(INTERVAL)

    assert (approved.approved, approved.awaiting_seq) == (5, None)
    assert (waits.log().watermark, waits.log().awaiting_seq, waits.readable_seqs()) == (5, None, [6, 7])

    waits.cut_expired(INTERVAL)
    assert (waits.log().watermark, waits.readable_seqs()) == (6, [7])


def test_a_consumer_blocks_an_approved_cut(waits: BinlogInstance) -> None:
    waits.service.consumers.register(waits.instance, "lisbon", DB, after=3)
    waits.service.configs.approve(waits.instance, DB, upto=5)
    waits.cut_expired(INTERVAL)
    held = waits.log()
    waits.service.consumers.acknowledge(waits.instance, "lisbon", DB, "", 7)
    waits.cut_expired(INTERVAL)

    assert (held.watermark, held.held, held.awaiting_seq) == (3, {"lisbon": 3}, None)
    assert waits.log().watermark >= 5


def test_a_consumer_blocks_its_two_logs_and_no_empty_one(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.configure_log(10, table="new")
    binlogs.service.consumers.register(binlogs.instance, "of-a-table-without-records", DB, "new")
    for seq in range(1, 21):
        binlogs.commit(seq, old(binlogs), orders={"p1": seq}, users={"p2": seq})
    for table, has in (("orders", 2), ("users", 15)):
        binlogs.service.consumers.register(binlogs.instance, "sync", DB, table, 0)
        binlogs.service.consumers.acknowledge(binlogs.instance, "sync", DB, table, has)

    binlogs.cut_expired()

    assert (binlogs.log().watermark, binlogs.log().held) == (2, {"sync": 2})
