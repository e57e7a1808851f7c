"""A log is cut exactly up to its expired records (B01 to B06, B15 to B18, B31)."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.errors import RecordsTrimmed, UnknownLog
from sexton.replication.binlog.model import MOST, BinlogSettings, Record
from sexton.replication.binlog.policy import ttl
from sexton.replication.binlog.sql import cutting
from sexton.replication.journal.model import Op
from tests.integration.replication.world import DB, INTERVAL, SHOP, World, upsert

DAY = 86_400


def test_b01_records_as_old_as_the_ttl_are_cut(world: World) -> None:
    world.keep(100)
    t0 = world.now - 151_000
    for seq, after in ((1, 0), (2, 50), (3, 150)):
        world.commit(seq, t0 + after * 1000)

    assert world.look().records == 2
    assert (world.log().watermark, world.seqs()) == (2, [3])
    with pytest.raises(RecordsTrimmed) as told:
        world.b.records.read(SHOP, DB, after=1)
    assert told.value.first == 3


def test_b03_no_row_is_written_without_expired_records(world: World) -> None:
    world.keep(100)
    world.place("t1", "b1")
    world.commit(1, orders={"p1": 3})

    report = world.look()

    assert (report.cut, report.records) == (0, 0)
    assert world.journal(Op.GC_BINLOG)[1:] == []  # the first says where the log begins
    assert (world.replica("t1", "b1").desired, world.cuts("b1")) == (-1, {})


def test_b04_a_database_is_cut_as_one(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1", part="p1", table="orders")
    world.place("t2", "b1", part="p2", table="users")
    old = world.now - 60_000
    world.commit(1, old, orders={"p1": 3})
    world.commit(2, old, orders={"p1": 5}, users={"p2": 7})

    world.look()

    (said,) = world.journal(Op.GC_BINLOG)[-1].body["tombstones"]
    assert said == {"dbBinlogTombstone": True, "dbId": DB, "tableIds": ["orders", "users"], "commitSeq": 2}
    assert (world.replica("t1", "b1").desired, world.replica("t2", "b1").desired) == (5, 7)


def test_b05_tables_are_cut_each_by_its_own_ttl(world: World) -> None:
    world.keep(enabled=False)
    world.keep(10, table="orders")
    world.keep(DAY, table="users")
    old = world.now - 60_000
    world.commit(1, old, orders={"p1": 3}, users={"p2": 3})
    world.commit(2, old, users={"p2": 4})

    world.look()

    assert (world.seqs("orders"), world.seqs("users")) == ([], [1, 2])
    (said,) = world.journal(Op.GC_BINLOG)[-1].body["tombstones"]
    assert said == {"dbBinlogTombstone": False, "dbId": DB, "tableIds": ["orders"], "commitSeq": 1}
    assert world.stored() == (2, 2, 2)
    with pytest.raises(UnknownLog):
        world.b.records.read(SHOP, DB)


def test_b06_every_expired_upsert_counts(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1", part="p1")
    world.place("t2", "b1", part="p2")
    old = world.now - 60_000
    world.commit(1, old, orders={"p1": 3})
    world.commit(2, old, orders={"p2": 7})

    world.look()

    assert (world.replica("t1", "b1").desired, world.replica("t2", "b1").desired) == (3, 7)


def test_b15_no_ttl_retains_all_and_zero_retains_none(world: World) -> None:
    world.keep(ttl("forever"))
    world.commit(1, world.now - 3_650 * DAY * 1000)
    world.commit(2, 1)

    assert world.look().cut == 0

    world.keep(0)
    world.later(INTERVAL)
    world.look()
    assert (world.log().watermark, world.seqs()) == (2, [])
    with pytest.raises(BadInput, match="forever"):
        ttl(-1)


def test_b17_records_and_bytes_limit_a_log(world: World) -> None:
    world.keep(max_history_nums=3)
    for seq in range(1, 6):
        world.commit(seq, orders={"p1": seq})
    world.look()
    assert world.seqs() == [3, 4, 5]

    size = (world.log().bytes - world.log().gone_bytes) // 3
    world.keep(max_bytes=2 * size)  # three are one too many: it stops as soon as the rest fits
    world.later(INTERVAL)
    world.look()
    assert world.seqs() == [4, 5]


def test_b18_a_consumer_blocks_the_cut_and_is_named(world: World) -> None:
    world.keep(100)
    old = world.now - 200_000
    for seq in (50, 60, 80):
        world.commit(seq, old)
    world.b.consumers.register(SHOP, "lisbon", DB, after=0)
    world.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 50)

    world.look()

    assert (world.log().watermark, world.seqs()) == (50, [60, 80])
    assert world.log().held == {"lisbon": 50}


def test_b31_a_clock_that_jumps_cuts_nothing(world: World) -> None:
    world.keep(DAY)
    world.commit(1)
    world.look()

    world.later(2 * DAY)
    report = world.look()

    assert "moved forward by 172800 s" in report.refused
    assert world.seqs() == [1]


def test_a_very_large_cut_waits_for_approval(db: Database) -> None:
    world = World(db, BinlogSettings(free_records=3))
    world.keep(DAY)
    old = world.now - 2 * DAY * 1000
    for seq in range(1, 6):
        world.commit(seq, old)
    world.commit(6)

    assert world.look().waiting == 1
    assert (world.log().wants, len(world.seqs())) == (5, 6)

    assert world.b.configs.approve(SHOP, DB, upto=2**40).approved == 5
    world.later(INTERVAL)
    world.look()
    assert (world.log().watermark, world.log().wants, world.seqs()) == (5, None, [6])


def test_one_large_table_does_not_stop_cuts_of_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "RECORDS_AT_ONCE", 2)
    world.keep(enabled=False)
    for table in ("orders", "users"):
        world.keep(10, table=table)
    old = world.now - 60_000
    for seq in range(1, 8):
        world.commit(seq, old, tables=["orders", "users"] if seq == 7 else ["orders"])

    report = world.look()

    assert (world.seqs("orders"), world.seqs("users"), report.records) == ([], [], 8)
    assert [t["commitSeq"] for e in world.journal() for t in e.body["tombstones"]] == [2, 7, 4, 6, 7]


def test_odd_timestamps_follow_the_record_before(world: World) -> None:
    world.keep(100)
    old, new = world.now - 300_000, world.now
    world.commit(1, old)
    world.commit(2, 0)  # as old as the one before
    world.commit(3, new)
    world.commit(4, old)  # it comes behind one that is not expired

    world.look()

    assert world.seqs() == [3, 4]


def test_a_timestamp_in_the_future_counts_as_now(world: World) -> None:
    world.keep(100)
    world.commit(1, world.now + DAY * 1000)

    world.later(2 * INTERVAL - 1)
    world.look()

    assert world.seqs() == []


def test_a_number_outside_the_databases_range_is_refused(world: World) -> None:
    world.keep(100)

    with pytest.raises(BadInput, match="commit_seq"):
        world.commit(MOST)
    with pytest.raises(BadInput, match="timestamp"):
        world.commit(1, 2**60)


def old(world: World) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return world.now - 60_000


def test_versions_count_even_if_the_table_is_not_named(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1")
    world.well("t1", "b1", 100)
    world.b.records.add(SHOP, DB, [Record(commit_seq=1, timestamp=old(world), data=upsert(orders={"p1": 3}))])

    world.look()

    assert world.cuts("b1") == {"t1.b1": 3}


def test_without_timestamps_no_new_record_is_cut(world: World) -> None:
    world.keep(7 * DAY)
    world.commit(1, 0)
    world.later(8 * DAY)
    world.look()
    world.commit(2, 0)
    world.later(INTERVAL)

    world.look()

    assert (world.log().watermark, world.seqs()) == (1, [2])


def test_runs_that_are_always_far_apart_still_cut(db: Database) -> None:
    world = World(db, BinlogSettings(interval_seconds=20))
    world.keep(10)
    world.commit(1)
    said = []
    for _ in range(4):
        world.later(700)
        said.append(bool(world.look().refused))

    assert said == [False, True, False, True]
    assert world.seqs() == []


def test_an_interval_below_the_tick_is_no_clock_jump(db: Database) -> None:
    world = World(db, BinlogSettings(interval_seconds=20))
    world.keep(10)
    for _ in range(3):
        world.later(60)
        assert not world.look().refused
