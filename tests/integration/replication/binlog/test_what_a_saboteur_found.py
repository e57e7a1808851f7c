"""What somebody found who tried to lose a record or a version, or to stop deletion for ever; each was so once."""

import pytest
from sqlalchemy import func, select

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.errors import BadInput, SextonError
from sexton.marks.lease import Lease
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.replication.binlog.errors import OutOfOrder, RecordsTrimmed
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, BinlogSettings, CutDone, Record
from sexton.replication.journal.replaying import FollowerState as Follower
from sexton.replication.replicas.model import Copy, Placement, Tablet, TabletReport
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from tests.integration.replication.world import DB, INTERVAL, SHOP, World, upsert

DAY = 86_400
TOKEN = WriteToken(batch=0, round=0, lease=Lease(instance=SHOP, job="recycle", owner="run", epoch=1), attempt=1)


def old(world: World) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return world.now - 60_000


def count(world: World, table: str) -> int:
    with world.db.read() as c:
        return int(c.execute(select(func.count()).select_from(getattr(world.db.t, table))).scalar_one())


def test_one_name_that_reads_two_logs_holds_for_both(world: World) -> None:
    world.keep(10)
    for seq in range(1, 21):
        world.commit(seq, old(world), orders={"p1": seq}, users={"p2": seq})
    for table, has in (("orders", 2), ("users", 15)):
        world.b.consumers.register(SHOP, "sync", DB, table, 0)
        world.b.consumers.acknowledge(SHOP, "sync", DB, table, has)

    world.look()

    assert (world.log().watermark, world.log().held) == (2, {"sync": 2})


def test_what_was_skipped_while_nobody_kept_a_log_is_no_hole_in_it(world: World) -> None:
    world.keep(None)
    for seq in range(1, 11):
        world.commit(seq, orders={"p1": seq})
    world.b.consumers.register(SHOP, "sync", DB, "orders", 5)
    world.keep(enabled=False)
    assert world.commit(11, orders={"p1": 11}).disabled == 1
    world.keep(None)
    world.commit(12, orders={"p1": 12})

    for table in ("", "orders"):
        with pytest.raises(RecordsTrimmed, match="first available is 12"):
            world.b.records.read(SHOP, DB, table, 5)
    with pytest.raises(RecordsTrimmed):
        world.b.consumers.register(SHOP, "late", DB, "orders", 0)


def test_a_log_that_was_off_for_no_record_has_all_it_had(world: World) -> None:
    world.keep(10)
    for seq in range(1, 11):
        world.commit(seq, tables=["orders"])
    world.keep(10, enabled=False)
    world.keep(10, from_seq=10)

    assert world.seqs(after=5) == [6, 7, 8, 9, 10]


def test_where_a_log_begins_refuses_nothing_that_is_still_on_its_way(world: World) -> None:
    world.keep(None)
    world.commit(1, orders={"p1": 1})
    world.keep(None, from_seq=10)  # said again, as an owner does at its start
    world.keep(enabled=False)
    world.keep(None, table="orders")
    world.keep(None, table="users", from_seq=20)

    assert [world.commit(seq, orders={"p1": seq}, users={"p2": seq}).stored for seq in (5, 15, 25)] == [1, 1, 1]
    assert (world.seqs("orders"), world.seqs("users")) == ([1, 5, 15, 25], [25])


def test_what_an_upsert_made_counts_whether_its_table_is_named_or_not(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1")
    world.well("t1", "b1", 100)
    world.b.records.add(SHOP, DB, [Record(commit_seq=1, timestamp=old(world), data=upsert(orders={"p1": 3}))])

    world.look()

    assert world.cuts("b1") == {"t1.b1": 3}


@pytest.mark.parametrize("then", ["off", "off and on", "the database's"])
def test_what_a_tables_log_left_goes_and_is_cut_on_backends(world: World, then: str) -> None:
    world.keep(enabled=False)
    world.keep(10, table="orders")
    world.place("t1", "b1")
    world.commit(1, orders={"p1": 3})
    if then == "the database's":
        world.keep(10)
    else:
        world.keep(10, table="orders", enabled=False)
    if then == "off and on":
        world.keep(10, table="orders")

    for _ in range(3):
        world.later(INTERVAL)
        world.look()
    world.well("t1", "b1", 100)

    assert (world.stored(), world.cuts("b1")) == ((0, 0, 0), {"t1.b1": 3})


def test_followers_of_a_log_that_was_off_and_on_have_what_their_leader_has(world: World) -> None:
    world.keep(enabled=False)
    world.keep(None, table="orders")
    followers = [Follower(), Follower()]
    for seq in (1, 2, 3):
        world.commit(seq, orders={"p1": seq})
    world.keep(None, table="orders", enabled=False)
    world.commit(4, orders={"p1": 4})
    world.keep(None, table="orders")
    for follower in followers:
        for seq in (1, 2, 3, 4):
            follower.record(DB, seq, ["orders"])
    for entry in world.journal():
        followers[0].apply(entry)
    followers[1].load_snapshot(world.b.replicas.snapshot(SHOP))

    assert [f.databases[DB].log("orders") for f in followers] == [world.seqs("orders")] * 2 == [[]] * 2


def test_a_copy_that_somebody_gave_up_counts_again_when_it_has_what_the_others_have(world: World) -> None:
    world.place("t1", "b1", "b2")
    world.well("t1", "b1", 100)
    world.well("t1", "b2", 5)
    world.b.replicas.full_copy(SHOP, "t1", "b2", "will be copied")

    world.well("t1", "b2", 5)
    assert world.replica("t1", "b2").full_copy == "will be copied"
    world.well("t1", "b2", 100)
    assert world.replica("t1", "b2").full_copy == ""


def test_what_was_claimed_meanwhile_it_must_have_too(world: World) -> None:
    world.place("t1", "b1", "b2")
    world.well("t1", "b1", 50)
    world.well("t1", "b2", 5)
    world.b.replicas.full_copy(SHOP, "t1", "b2", "away")
    world.well("t1", "b1", 100)
    with deciding(world.db, SHOP) as c:
        keeper, candidates = ReplicaKeeper(world.db), [Candidate(Ref("compacted", "r1"), versions=("t1", 80))]
        assert keeper.blocking(c, TOKEN, candidates, world.db.now(c), None) == {}
        keeper.released(c, TOKEN, candidates)
    moved = tuple(Copy(backend=b, uid=f"t1.{b}") for b in ("b2", "b3"))  # b1's copy is gone, what it let go is known
    its = Tablet(tablet="t1", part="p1", copies=moved)
    world.b.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))

    world.well("t1", "b2", 50)
    assert world.replica("t1", "b2").full_copy == "away"
    world.well("t1", "b2", 80)
    assert (world.replica("t1", "b2").full_copy, world.replica("t1", "b3").gone) == ("", 80)


def test_a_dropped_table_is_not_placed_again(world: World) -> None:
    world.place("t1", "b1")
    world.b.configs.drop(SHOP, DB, "orders")
    world.cuts("b1")
    world.done("b1", t1_b1=MAX_COMMIT_SEQ)
    assert count(world, "replica") == 0

    with pytest.raises(BadInput, match="is dropped"):
        world.place("t1", "b1")


def test_a_copy_that_replaces_a_bad_one_is_not_bad_to_followers(world: World) -> None:
    follower = Follower()
    follower.place("t1", "b1")
    world.place("t1", "b1", "b2")
    world.report("b1", TabletReport(uid="t1.b1", bad=True))
    copies = (Copy(backend="b1", uid="new"), Copy(backend="b2", uid="t1.b2"))
    its = Tablet(tablet="t1", part="p1", copies=copies)
    world.b.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))

    for entry in world.journal():
        follower.apply(entry)

    assert (world.replica("t1", "b1").bad, follower.unhealthy()) == (False, {})


def test_what_was_not_known_before_a_drop_is_asked_again_after_it(world: World) -> None:
    world.keep(10)
    for tablet, part in (("t1", "p1"), ("t2", "p2")):
        world.place(tablet, "b1", part=part)
        world.well(tablet, "b1", 9)
    world.commit(1, old(world), orders={"p1": 3, "p2": 3})
    world.look()
    world.cuts("b1")
    world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=-1, outcome="unknown")])
    world.b.configs.drop(SHOP, DB, "orders")

    world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t2.b1", version=3)])

    assert world.cuts("b1") == {"t1.b1": MAX_COMMIT_SEQ, "t2.b1": MAX_COMMIT_SEQ}


def test_who_failed_has_not_let_go_whatever_else_it_says(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1")
    world.well("t1", "b1", 9)
    world.commit(1, old(world), orders={"p1": 3})
    world.look()
    world.cuts("b1")

    world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=3, outcome="failed", detail="EIO")])

    assert world.cuts("b1") == {"t1.b1": 3}


def test_nothing_that_no_database_holds_is_more_than_refused(world: World) -> None:
    world.keep(10)
    nul, its = "a\x00b", (SHOP, "b1")
    for refused in (
        lambda: world.b.records.add(SHOP, DB, [Record(commit_seq=1, type="ALTER", data=nul)]),
        lambda: world.b.configs.logs(SHOP, (nul, "")),
        lambda: world.b.journal.read(SHOP, 0, nul),
        lambda: world.report("b1", TabletReport(uid=nul, version=1)),
        lambda: world.b.consumers.acknowledge(SHOP, nul, DB, "", 0),
    ):
        with pytest.raises(SextonError):
            refused()
    for done in (
        CutDone(uid=nul, version=1),
        CutDone(uid="u", version=10**30),
        CutDone(uid="u", version=1, outcome=nul),
    ):
        assert world.b.sender.acknowledge(*its, [done]).ignored == 1


@pytest.mark.parametrize("part", ["a\x00b", "\ud800", "x" * 129, ""])
def test_an_id_of_a_partition_that_cannot_be_is_refused(world: World, part: str) -> None:
    world.keep(10)

    with pytest.raises(BadInput):
        world.commit(1, orders={part: 3})


def test_a_hold_of_a_log_that_is_off_is_no_hold(world: World) -> None:
    world.keep(10)
    world.commit(1, old(world))
    world.b.consumers.register(SHOP, "c", DB, "", 0)
    world.look()
    assert world.log().held == {"c": 0}

    world.keep(10, enabled=False)

    assert (world.log().held, world.log().held_since) == ({}, None)


def test_an_owner_without_timestamps_loses_nothing_that_is_new(world: World) -> None:
    world.keep(7 * DAY)
    world.commit(1, 0)
    world.later(8 * DAY)
    world.look()
    world.commit(2, 0)
    world.later(INTERVAL)

    world.look()

    assert (world.log().watermark, world.seqs()) == (1, [2])


def test_a_pull_by_hand_takes_no_backend_out_of_the_rounds(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1")
    world.commit(1, old(world), orders={"p1": 3})
    world.look()
    world.b.sender.page(SHOP, "b1", queue=True)
    world.b.sender.page(SHOP, "b1")

    assert list(world.b.sender.waiting(SHOP, "", 10)) == ["b1"]


def test_another_record_of_a_number_that_is_known_is_refused(world: World) -> None:
    world.keep(None)
    world.commit(1, orders={"p1": 3})

    with pytest.raises(OutOfOrder, match="with another type or data"):
        world.commit(1, orders={"p1": 9})


def test_a_table_whose_first_record_is_late_holds_nothing_of_others(world: World) -> None:
    world.keep(10)
    for seq in range(1, 6):
        world.commit(seq, old(world), tables=["busy"])
    world.keep(10, table="new")
    world.b.consumers.register(SHOP, "r", DB, "new")

    world.look()

    assert world.log().watermark == 5


def test_looks_that_are_always_far_apart_cut_at_last(db: Database) -> None:
    world = World(db, BinlogSettings(interval_seconds=20))
    world.keep(10)
    world.commit(1)
    said = []
    for _ in range(4):
        world.later(700)
        said.append(bool(world.look().refused))

    assert said == [False, True, False, True]
    assert world.seqs() == []


def test_an_interval_below_the_tick_is_no_jump_of_the_clock(db: Database) -> None:
    world = World(db, BinlogSettings(interval_seconds=20))
    world.keep(10)
    for _ in range(3):
        world.later(60)
        assert not world.look().refused
