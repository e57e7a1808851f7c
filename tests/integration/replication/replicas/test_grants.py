"""What backends are granted, and acknowledge: conformance B07, B08, B20, B23, B29, C14 to C17."""

import pytest

from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, ControlKind
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, CutDone
from sexton.replication.journal.model import Op
from sexton.replication.replicas.errors import LastCopy
from sexton.replication.replicas.model import Copy, Placement, Tablet, TabletReport
from sexton.replication.replicas.policy import lowest_needed_version
from tests.integration.replication.world import DB, INTERVAL, REPLICA_TERMS, SHOP, World

FRESH = REPLICA_TERMS.freshness_seconds
LIMIT = REPLICA_TERMS.hold_limit_seconds


class Crash(Exception):
    """The process ends here."""


def expired(world: World, seq: int, version: int, part: str = "p1", table: str = "orders") -> None:
    """Commit an upsert that has expired."""
    world.commit(seq, world.now - 60_000, **{table: {part: version}})


@pytest.fixture
def world(world: World) -> World:
    """A database with a TTL, and one tablet on two backends."""
    world.keep(10)
    world.place("t1", "b1", "b2")
    return world


def well(world: World, version: int, *backends: str, tablet: str = "t1") -> None:
    """Let backends report that they have all."""
    for backend in backends:
        world.well(tablet, backend, version)


def test_b07_a_backend_that_was_down_gets_its_cut_later_without_new_writes(world: World) -> None:
    well(world, 9, "b1", "b2")
    expired(world, 1, 5)
    world.look()
    assert world.cuts("b1") == {"t1.b1": 5}
    world.done("b1", t1_b1=5)

    world.later(INTERVAL)
    world.look()

    well(world, 9, "b1", "b2")
    assert (world.cuts("b1"), world.cuts("b2")) == ({}, {"t1.b2": 5})


def test_b08_each_tablet_once_with_its_highest_version(world: World) -> None:
    world.place("t2", "b1", part="p2")
    well(world, 20, "b1", "b2")
    well(world, 20, "b1", tablet="t2")
    for seq, version in ((1, 4), (2, 9), (3, 7)):
        expired(world, seq, version)
    expired(world, 4, 3, "p2")

    world.look()

    assert (world.cuts("b1"), world.cuts("b2")) == ({"t1.b1": 9, "t2.b1": 3}, {"t1.b2": 9})


def test_a_second_cut_reaches_copies_that_know_of_the_first(world: World) -> None:
    for seq, version in ((1, 5), (2, 8)):
        expired(world, seq, version)
        world.look()
    well(world, 9, "b1", "b2")

    assert world.cuts("b1") == {"t1.b1": 8}


def test_what_was_granted_is_granted_again_until_it_is_acknowledged(world: World) -> None:
    well(world, 9, "b1", "b2")
    expired(world, 1, 5)
    world.look()

    assert world.cuts("b1") == world.cuts("b1") == {"t1.b1": 5}
    well(world, 3, "b2")  # what it has lost since does not take back what was granted
    assert world.cuts("b1") == {"t1.b1": 5}
    assert world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=6)]).ignored == 1
    world.done("b1", t1_b1=3)
    assert world.cuts("b1") == {"t1.b1": 5}
    world.done("b1", t1_b1=5)
    world.done("b1", t1_b1=-1)
    assert world.cuts("b1") == {}
    assert world.replica("t1", "b1").acked == 5


def test_c14_a_copy_with_a_gap_holds_the_cut_below_it(world: World) -> None:
    world.place("t3", "b1", "b2", "b3", part="p3")
    well(world, 20, "b1", "b2", tablet="t3")
    world.report("b3", TabletReport(uid="t3.b3", ranges=((0, 14), (16, 20))))
    expired(world, 1, 18, "p3")
    world.look()

    assert {world.cuts(b)[f"t3.{b}"] for b in ("b1", "b2", "b3")} == {14}
    found, now = world.b.replicas.tablet(SHOP, "t3")
    least = lowest_needed_version(found, now)
    assert least is not None
    assert least[1] is not None
    assert (least[0], least[1].backend) == (15, "b3")
    assert [r.backend for r in world.b.replicas.list_unhealthy(SHOP)[0] if r.tablet == "t3"] == ["b3"]

    well(world, 20, "b3", tablet="t3")
    assert world.cuts("b1")["t3.b1"] == 18


def test_c16_of_the_last_good_copy_nothing_goes_however_long_its_node_is_dead(world: World) -> None:
    well(world, 9, "b1")
    world.report("b2", TabletReport(uid="t1.b2", bad=True))
    expired(world, 1, 5)
    for _ in range(3):
        world.later(LIMIT)
        world.look()
        world.report("b2", TabletReport(uid="t1.b2", bad=True))

    assert (world.cuts("b1"), world.cuts("b2")) == ({}, {})
    assert world.replica("t1", "b1").full_copy == ""

    world.b.replicas.full_copy(SHOP, "t1", "b1", "lost for ever")
    world.b.replicas.full_copy(SHOP, "t1", "b2", "lost for ever")
    assert (world.cuts("b1"), world.cuts("b2")) == ({}, {})


def test_c17_without_a_fresh_report_nothing_goes(world: World) -> None:
    expired(world, 1, 5)
    world.look()
    assert world.cuts("b1") == {}

    well(world, 9, "b1", "b2")
    assert world.cuts("b1") == {"t1.b1": 5}
    expired(world, 2, 7)
    world.later(FRESH)
    world.look()
    world.look()
    assert world.cuts("b1") == {"t1.b1": 5}
    well(world, 9, "b1")
    assert world.cuts("b1") == {"t1.b1": 5}  # the other one has not


def test_b29_one_dead_backend_stops_only_its_tablets(world: World) -> None:
    world.place("t2", "b1", "b3", part="p2")
    expired(world, 1, 5)
    expired(world, 2, 5, "p2")
    world.look()
    well(world, 9, "b1", "b3", tablet="t2")
    well(world, 9, "b1")

    assert world.cuts("b1") == {"t2.b1": 5}
    assert world.cuts("b3") == {"t2.b3": 5}
    assert world.log().watermark == 2

    well(world, 9, "b2")  # it is back
    assert (world.cuts("b1"), world.cuts("b2")) == ({"t1.b1": 5, "t2.b1": 5}, {"t1.b2": 5})


def test_b29_a_dropped_table_is_not_frozen_by_a_dead_backend(world: World) -> None:
    expired(world, 1, 5)
    world.look()

    assert world.b.configs.drop(SHOP, DB, "orders") == 2

    assert world.cuts("b1") == {"t1.b1": MAX_COMMIT_SEQ}
    world.done("b1", t1_b1=MAX_COMMIT_SEQ)
    assert world.cuts("b1") == {}
    assert world.cuts("b2") == {"t1.b2": MAX_COMMIT_SEQ}


def test_b20_what_a_dropped_table_left_is_gone_with_the_next_look(world: World) -> None:
    world.keep(None)
    for seq in range(1, 6):
        world.commit(seq, orders={"p1": seq}, users={"p9": seq})
    world.commit(6, orders={"p1": 6})

    world.b.configs.drop(SHOP, DB, "orders")
    world.look()

    assert world.seqs("users") == [1, 2, 3, 4, 5]
    assert world.seqs() == [1, 2, 3, 4, 5, 6]  # the database's own log still tells what happened
    assert world.stored() == (6, 5, 5)
    assert world.commit(7, orders={"p1": 7}).stored == 1
    world.b.configs.drop(SHOP, DB)
    world.look()
    assert world.stored() == (0, 0, 0)
    assert world.commit(8, orders={"p1": 7}).disabled == 1


@pytest.mark.parametrize(
    "point", ["binlog.guarded", "binlog.written", "binlog.committed", "binlog.spread", "binlog.removed"]
)
def test_b23_a_round_that_dies_anywhere_is_done_by_the_next(world: World, point: str) -> None:
    well(world, 9, "b1", "b2")
    expired(world, 1, 5)
    expired(world, 2, 7)

    def crash(name: str) -> None:
        if name == point:
            raise Crash

    with installed(crash), pytest.raises(Crash):
        world.look()
    world.later(INTERVAL)
    world.look()

    said = [t for e in world.journal(Op.GC_BINLOG) for t in e.body["tombstones"]]
    assert [t["commitSeq"] for t in said] == [2]
    well(world, 9, "b1", "b2")
    assert (world.cuts("b1"), world.cuts("b2")) == ({"t1.b1": 7}, {"t1.b2": 7})
    assert (world.seqs(), world.stored()) == ([], (0, 0, 0))


def test_a_stop_grants_nothing_new_and_says_why(world: World) -> None:
    well(world, 9, "b1", "b2")
    expired(world, 1, 5)
    world.look()
    world.controls.put(ControlKind.STOP, ALL, "night")

    page = world.page("b1")

    assert (page.cuts, "night" in page.why) == ((), True)
    world.controls.remove(ControlKind.STOP, ALL)
    assert world.cuts("b1") == {"t1.b1": 5}


def test_pages_go_on_behind_copies_that_have_to_wait(world: World) -> None:
    for n in range(5):
        world.place(f"s{n}", "b1", "b2", part=f"q{n}")
        well(world, 9, "b1", *(["b2"] if n % 2 else []), tablet=f"s{n}")
        expired(world, n + 1, 5, f"q{n}")
    world.look()

    seen, after = {}, ""
    for _ in range(4):
        page = world.page("b1", after, 2)
        seen |= {its.uid: its.version for its in page.cuts}
        after = page.next
        if not after:
            break

    assert seen == {"s1.b1": 5, "s3.b1": 5}


def test_a_copy_that_is_given_up_holds_nothing_and_counts_again_when_it_is_whole(world: World) -> None:
    expired(world, 1, 5)
    well(world, 9, "b1", "b2")
    world.steadily(LIMIT + FRESH)
    well(world, 9, "b1")
    world.later(INTERVAL)
    report = world.look()

    assert (report.full_copy, world.replica("t1", "b2").full_copy) == (1, "hold limit")
    assert world.cuts("b1") == {"t1.b1": 5}
    world.report("b2", TabletReport(uid="t1.b2", ranges=((0, 4),)))  # it lacks what may be gone
    assert world.replica("t1", "b2").full_copy == "hold limit"
    well(world, 9, "b2")
    assert world.replica("t1", "b2").full_copy == ""


def test_a_copy_that_is_new_holds_until_it_reports(world: World) -> None:
    well(world, 9, "b1", "b2")
    expired(world, 1, 5)
    world.look()
    copies = tuple(Copy(backend=b, uid=f"t1.{b}") for b in ("b1", "b3"))
    moved = Placement(db=DB, table="orders", tablets=(Tablet(tablet="t1", part="p1", copies=copies),))

    placed = world.b.placements.place(SHOP, moved)

    assert (placed.added, placed.kept, placed.removed) == (1, 1, 1)
    assert world.cuts("b1") == {}
    well(world, 9, "b3")
    assert (world.cuts("b1"), world.cuts("b3")) == ({"t1.b1": 5}, {"t1.b3": 5})


def test_no_tablet_is_left_without_copies_by_mistake(world: World) -> None:
    other = Tablet(tablet="t9", part="p1", copies=(Copy(backend="b1", uid="u9"),))
    with pytest.raises(BadInput, match="tablet t1 of table orders is missing"):
        world.b.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(other,)))
    none = Tablet(tablet="t1", part="p1", copies=())
    with pytest.raises(BadInput, match="has no replica"):
        world.b.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(none,)))

    with pytest.raises(LastCopy, match="no replica of tablet t1 on another backend than b2 is healthy"):
        world.b.placements.decommission(SHOP, "b2")  # nobody has heard of b1's
    well(world, 9, "b1", "b2")
    assert world.b.placements.decommission(SHOP, "b2") == 1
    with pytest.raises(LastCopy, match="no replica of tablet t1"):
        world.b.placements.decommission(SHOP, "b1")
    dropped = Placement(db=DB, table="orders", dropped=("p1",))
    assert world.b.placements.place(SHOP, dropped).dropped == 1
    assert world.b.placements.decommission(SHOP, "b1") == 1
