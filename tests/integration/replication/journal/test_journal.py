"""The journal: its order, what replay makes of anything, and who it is kept for: conformance B14, B30, C13."""

import threading

import pytest

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.replication.journal.errors import FollowerAhead, JournalTrimmed
from sexton.replication.journal.model import JournalEntry, Op
from sexton.replication.journal.replaying import FollowerState, ReplicaHealth
from sexton.replication.replicas.model import TabletReport
from tests.integration.replication.world import DB, SHOP, STEP, TERMS, World


def caught_up(world: World, follower: FollowerState) -> FollowerState:
    """Let a follower apply all there is."""
    while page := world.b.journal.read(SHOP, follower.applied).entries:
        for entry in page:
            follower.apply(entry)
    return follower


def test_b14_replay_of_what_nobody_knows_completes(world: World) -> None:
    its = FollowerState()
    its.record(DB, 1, ["orders"])
    null = {"dbBinlogTombstone": False, "dbId": DB, "tableIds": None, "commitSeq": 9}
    unknown = {"dbBinlogTombstone": True, "dbId": 77, "commitSeq": 5, "future": [1]}
    said = {"dbBinlogTombstone": True, "dbId": DB, "tableIds": ["orders", 4], "commitSeq": 1}
    bodies = [{"tombstones": [null, unknown, "x", {}, said]}, {}, {"tombstones": 3}, {"tombstones": [[]]}]

    for n, body in enumerate(bodies, 1):
        assert its.apply(JournalEntry(seq=n, op=Op.GC_BINLOG, body=body))
    assert its.apply(JournalEntry(seq=5, op=999, body={"x": 1}))

    assert (its.applied, its.logs(), its.databases[DB].watermark) == (5, {}, 1)
    assert not its.apply(JournalEntry(seq=3, op=Op.GC_BINLOG, body=bodies[0]))


def test_c13_what_is_unknown_is_skipped_and_the_rest_applies() -> None:
    its = FollowerState()
    for tablet in ("1", "2", "3"):
        its.place(tablet, "9")
    told = [
        {"tabletId": 77, "type": "BAD"},
        {"tabletId": 1, "type": "NEVER_HEARD"},
        {"tabletId": 2, "type": "MISSING_VERSION", "lastFailedVersion": 11},
        {"tabletId": 3, "type": "BAD", "lastFailedVersion": -1},
        None,
    ]

    its.apply(JournalEntry(seq=1, op=48, body={"backendId": 9, "replicaReportInfos": told}))
    old = {"backendId": 9, "bad": True, "tabletSchemaHash": [{"first": 1, "second": 5}, [77, 5], 4]}
    its.apply(JournalEntry(seq=2, op=46, body=old))

    assert its.unhealthy() == {
        ("2", "9"): ReplicaHealth(failed=11),
        ("3", "9"): ReplicaHealth(bad=True),
        ("1", "9"): ReplicaHealth(bad=True),
    }
    its.apply(
        JournalEntry(seq=3, op=48, body={"backendId": 9, "replicaReportInfos": [{"tabletId": "3", "type": "HEALTHY"}]})
    )
    assert ("3", "9") not in its.unhealthy()


def test_b30_a_follower_misses_nothing_of_two_writers(world: World) -> None:
    journal, seen, stop = world.b.journal, list[int](), threading.Event()

    def write() -> None:
        for _ in range(20):
            with world.db.write() as c:
                journal.append(c, SHOP, Op.GC_BINLOG, {})

    def follow() -> None:
        while not stop.is_set() or journal.head(SHOP) > (seen[-1] if seen else 0):
            seen.extend(e.seq for e in journal.read(SHOP, seen[-1] if seen else 0).entries)

    writers = [threading.Thread(target=write) for _ in range(3)]
    following = threading.Thread(target=follow)
    for its in (*writers, following):
        its.start()
    for its in writers:
        its.join(60)
    stop.set()
    following.join(60)

    assert seen == list(range(1, 61))


def test_b30_who_comes_second_waits_for_the_first(postgres_url: str) -> None:
    world = World(Database.open(postgres_url))
    second = threading.Event()

    def write() -> None:
        with world.db.write() as c:
            world.b.journal.append(c, SHOP, Op.GC_BINLOG, {"by": "second"})
        second.set()

    writing = threading.Thread(target=write)
    with world.db.write() as c:
        assert world.b.journal.append(c, SHOP, Op.GC_BINLOG, {"by": "first"}) == 1
        writing.start()
        assert not second.wait(0.5)
        assert world.b.journal.read(SHOP, 0).entries == ()
    writing.join(30)

    assert [e.body["by"] for e in world.b.journal.read(SHOP, 0).entries] == ["first", "second"]
    world.db.close()


def test_entries_are_kept_for_the_slowest_follower(world: World) -> None:
    world.keep(0)
    for seq in range(1, 6):
        world.commit(seq)
        world.look()
    head = world.b.journal.head(SHOP)
    world.b.journal.read(SHOP, 2, "slow")
    world.b.journal.read(SHOP, head, "quick")

    world.look()

    assert world.b.journal.read(SHOP, 2).entries[0].seq == 3
    with pytest.raises(JournalTrimmed) as told:
        world.b.journal.read(SHOP, 1)
    assert told.value.first == 3
    with pytest.raises(FollowerAhead):
        world.b.journal.read(SHOP, head + 1)

    world.steadily(TERMS.hold_limit_seconds)
    world.b.journal.read(SHOP, head, "quick")
    world.steadily(STEP)
    assert [(f.name, f.lost_at is None) for f in world.b.journal.followers(SHOP)] == [("slow", False), ("quick", True)]
    with pytest.raises(JournalTrimmed):
        world.b.journal.read(SHOP, 2, "slow")


def test_who_begins_anew_has_what_the_others_have(world: World) -> None:
    world.keep(100)
    world.place("t1", "b1", "b2")
    for seq in (1, 2, 3):
        world.commit(seq, world.now - 200_000, orders={"p1": seq})
    world.commit(4, orders={"p1": 4})
    world.report("b1", TabletReport(uid="t1.b1", bad=True))
    world.look()
    old, new = FollowerState(), FollowerState()
    for its in (old, new):
        for seq in (1, 2, 3, 4):
            its.record(DB, seq, ["orders"])
        for backend in ("b1", "b2"):
            its.place("t1", backend)

    new.load_snapshot(world.b.replicas.snapshot(SHOP))
    caught_up(world, old)

    assert new.applied == old.applied == world.b.journal.head(SHOP)
    assert new.logs() == old.logs() == {DB: {"": [4], "orders": [4]}}
    assert new.unhealthy() == old.unhealthy() == {("t1", "b1"): ReplicaHealth(bad=True)}


@pytest.mark.parametrize("point", ["binlog.written", "report.written"])
def test_what_was_rolled_back_is_in_no_journal(world: World, point: str) -> None:
    world.keep(0)
    world.place("t1", "b1")
    world.commit(1, orders={"p1": 1})
    before = world.b.journal.head(SHOP)

    def crash(name: str) -> None:
        if name == point:
            raise KeyError(name)

    with installed(crash), pytest.raises(KeyError):  # noqa: PT012
        world.look()
        world.report("b1", TabletReport(uid="t1.b1", bad=True))

    assert world.b.journal.head(SHOP) == before + (point == "report.written")
    world.look()
    world.report("b1", TabletReport(uid="t1.b1", bad=True))
    assert [e.seq for e in world.journal()] == list(range(1, before + 3))
