"""What backends report, and what is made of it: conformance C04 to C06, C08, C12 to C17."""

import pytest

from sexton.database.guard import UnknownInstance
from sexton.kernel.errors import BadInput
from sexton.replication.journal.model import Op
from sexton.replication.replicas.model import ReplicaReport, TabletReport
from sexton.replication.replicas.version_graph import MAX_VERSION
from tests.integration.replication.world import REPLICA_TERMS, World

GAP = REPLICA_TERMS.gap_persist_seconds


@pytest.fixture
def world(world: World) -> World:
    """A database with a TTL, one tablet on two backends, and an upsert that has expired."""
    world.keep(10)
    world.place("t1", "b1", "b2")
    world.well("t1", "b2", 9)
    world.commit(1, world.now - 60_000, orders={"p1": 8})
    world.look()
    return world


def ranges(*of: tuple[int, int], **more: object) -> TabletReport:
    """Return what b1 says of its copy."""
    return TabletReport(uid="t1.b1", ranges=of, **more)  # type: ignore[arg-type]


def said(world: World) -> list[list[dict[str, object]]]:
    """Return what followers are told of replicas."""
    return [e.body["replicaReportInfos"] for e in world.journal(Op.BACKEND_REPLICAS_INFO)]


def test_c04_a_tablet_without_any_rowset_is_bad(world: World) -> None:
    heard = world.report("b1", ranges())

    assert (heard.taken, heard.bad) == (1, 1)
    assert world.replica("t1", "b1").bad
    assert said(world) == [[{"tabletId": "t1", "type": "BAD", "lastFailedVersion": -1}]]
    assert world.cuts("b2") == {}
    world.report("b1", ranges())
    assert len(said(world)) == 1


def test_c05_a_gap_holds_at_once_and_is_marked_when_it_stays(world: World) -> None:
    world.report("b1", ranges((0, 3), (5, 9)))
    assert (world.replica("t1", "b1").failed, said(world)) == (-1, [])
    assert world.cuts("b2") == {"t1.b2": 3}

    world.report("b1", ranges((0, 3), (4, 4), (5, 9)))
    assert world.replica("t1", "b1").gap_since is None
    assert world.cuts("b2") == {"t1.b2": 8}

    world.report("b1", ranges((0, 9), (11, 11)))
    world.later(GAP - 1)
    assert world.report("b1", ranges((0, 9), (11, 12))).missing == 0
    world.later(1)
    assert world.report("b1", ranges((0, 9), (11, 13))).missing == 1
    assert said(world)[-1] == [{"tabletId": "t1", "type": "MISSING_VERSION", "lastFailedVersion": 10}]


def test_another_gap_begins_anew(world: World) -> None:
    world.report("b1", ranges((0, 3), (5, 9)))
    world.later(GAP)
    world.report("b1", ranges((0, 5), (7, 9)))

    assert (world.replica("t1", "b1").failed, world.replica("t1", "b1").needs) == (-1, 6)


def test_c06_the_version_that_is_missing_is_remembered(world: World) -> None:
    world.report("b1", ranges((0, 10), (12, 12)))
    world.later(GAP)
    world.report("b1", ranges((0, 10), (12, 12)))
    assert world.replica("t1", "b1").failed == 11

    world.report("b1", ranges((0, 10), (12, 13)))
    assert world.replica("t1", "b1").failed == 11
    assert len(said(world)) == 1


def test_c08_a_copy_that_is_whole_again_is_in_order_and_others_hear_of_it(world: World) -> None:
    world.report("b1", ranges((0, 10), (12, 12)))
    world.later(GAP)
    world.report("b1", ranges((0, 10), (12, 12)))

    assert world.report("b1", ranges((0, 12))).healthy == 1

    assert world.replica("t1", "b1").failed == -1
    assert said(world)[-1] == [{"tabletId": "t1", "type": "HEALTHY", "lastFailedVersion": -1}]


def test_c12_bad_wins_over_missing(world: World) -> None:
    its = ranges((0, 3), (5, 9), bad=True, version_miss=True)
    world.report("b1", its)
    world.later(GAP)

    heard = world.report("b1", its)

    assert (heard.bad, heard.missing, world.replica("t1", "b1").failed) == (0, 0, -1)
    assert said(world) == [[{"tabletId": "t1", "type": "BAD", "lastFailedVersion": -1}]]


def test_a_copy_that_lost_its_last_versions_needs_them(world: World) -> None:
    world.report("b1", ranges((0, 9)))
    world.report("b1", ranges((0, 5)))

    assert world.cuts("b2") == {"t1.b2": 5}
    world.later(GAP)
    assert world.report("b1", ranges((0, 5))).missing == 1


def test_a_flag_without_a_place_means_behind_the_version(world: World) -> None:
    world.report("b1", TabletReport(uid="t1.b1", version=6, version_miss=True))

    assert world.cuts("b2") == {"t1.b2": 6}


def test_ranges_that_cross_are_shown_and_only_what_can_be_read_counts(world: World) -> None:
    world.report("b1", ranges((0, 5), (4, 9)))

    its = world.replica("t1", "b1")
    assert (its.crossing, its.needs, its.gap_since is not None) == (True, 6, True)
    assert world.cuts("b2") == {"t1.b2": 5}


def test_what_is_late_or_of_another_is_ignored(world: World) -> None:
    assert world.report("b1", ranges((0, 9)), boot=2, sequence=5).taken == 1

    for boot, sequence in ((2, 5), (2, 4), (1, 99)):
        assert world.report("b1", ranges((0, 3)), boot=boot, sequence=sequence).stale == 1
    assert world.report("b1", TabletReport(uid="t0.b1", version=1), boot=2, sequence=6).unknown == 1
    assert world.report("b2", ranges((0, 3)), boot=2, sequence=6).unknown == 1
    assert world.replica("t1", "b1").needs == 10
    assert world.report("b1", ranges((0, 3)), boot=3, sequence=0).taken == 1


def test_what_cannot_be_is_refused_and_nothing_of_it_is_taken(world: World) -> None:
    good = ranges((0, 9))
    for its in (
        [good, good],
        [ranges((3, 1))],
        [ranges((0, MAX_VERSION + 1))],
        [TabletReport(uid="t1.b1", version=-2)],
        [TabletReport(uid="t1.b1", version=1, rows=-1)],
    ):
        with pytest.raises(BadInput):
            world.report("b1", *its)
    with pytest.raises(UnknownInstance):
        world.b.reports.accept("nobody", "b1", ReplicaReport(boot=1, sequence=1))

    assert world.replica("t1", "b1").version == -1
