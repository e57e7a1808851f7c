"""What expires, how far a log is cut, and what a round writes of it: conformance B01 to B06, B15 to B18, B31."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.errors import RecordsTrimmed, UnknownLog
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, BinlogSettings
from sexton.replication.binlog.policy import parse_ttl
from sexton.replication.binlog.sql import cutting
from sexton.replication.journal.model import Op
from tests.integration.replication.world import DB, INTERVAL, SHOP, World

DAY = 86_400


def test_b01_what_is_as_old_as_the_ttl_is_cut(world: World) -> None:
    world.keep(100)
    t0 = world.now - 151_000
    for seq, after in ((1, 0), (2, 50), (3, 150)):
        world.commit(seq, t0 + after * 1000)

    assert world.look().records == 2
    assert (world.log().watermark, world.seqs()) == (2, [3])
    with pytest.raises(RecordsTrimmed) as told:
        world.b.records.read(SHOP, DB, after=1)
    assert told.value.first == 3


def test_b03_where_nothing_expired_nothing_is_written(world: World) -> None:
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


def test_b06_every_upsert_that_expired_counts(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1", part="p1")
    world.place("t2", "b1", part="p2")
    old = world.now - 60_000
    world.commit(1, old, orders={"p1": 3})
    world.commit(2, old, orders={"p2": 7})

    world.look()

    assert (world.replica("t1", "b1").desired, world.replica("t2", "b1").desired) == (3, 7)


def test_b15_forever_is_forever_and_zero_is_now(world: World) -> None:
    world.keep(parse_ttl("forever"))
    world.commit(1, world.now - 3_650 * DAY * 1000)
    world.commit(2, 1)

    assert world.look().cut == 0

    world.keep(0)
    world.later(INTERVAL)
    world.look()
    assert (world.log().watermark, world.seqs()) == (2, [])
    with pytest.raises(BadInput, match="forever"):
        parse_ttl(-1)


def test_b17_history_and_bytes_are_limits(world: World) -> None:
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


def test_b18_a_consumer_holds_and_is_named(world: World) -> None:
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


def test_a_cut_of_very_much_waits_for_a_person_and_for_no_more_than_was_seen(db: Database) -> None:
    world = World(db, BinlogSettings(free_records=3))
    world.keep(DAY)
    old = world.now - 2 * DAY * 1000
    for seq in range(1, 6):
        world.commit(seq, old)
    world.commit(6)

    assert world.look().waiting == 1
    assert (world.log().awaiting_seq, len(world.seqs())) == (5, 6)

    assert world.b.configs.approve(SHOP, DB, upto=2**40).approved == 5
    world.later(INTERVAL)
    world.look()
    assert (world.log().watermark, world.log().awaiting_seq, world.seqs()) == (5, None, [6])


def test_tables_of_which_one_has_very_much_are_all_cut_to_the_end(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_timestamps_that_go_back_or_are_not_there_follow_the_record_before(world: World) -> None:
    world.keep(100)
    old, new = world.now - 300_000, world.now
    world.commit(1, old)
    world.commit(2, 0)  # as old as the one before
    world.commit(3, new)
    world.commit(4, old)  # it comes behind one that is not expired

    world.look()

    assert world.seqs() == [3, 4]


def test_a_timestamp_of_tomorrow_is_one_of_today(world: World) -> None:
    world.keep(100)
    world.commit(1, world.now + DAY * 1000)

    world.later(2 * INTERVAL - 1)
    world.look()

    assert world.seqs() == []


def test_a_number_that_no_database_has_is_refused(world: World) -> None:
    world.keep(100)

    with pytest.raises(BadInput, match="commit_seq"):
        world.commit(MAX_COMMIT_SEQ)
    with pytest.raises(BadInput, match="timestamp"):
        world.commit(1, 2**60)
