"""Metrics of binlogs, journals and replicas equal the tables."""

from sqlalchemy import event

from sexton.database.engine import Database
from sexton.insight.metrics import labels
from sexton.insight.metrics.figures import binlogs
from sexton.insight.metrics.model import BinlogFigures
from sexton.operators.registry.store import Registry
from sexton.replication.binlog.model import CutDone, Record
from sexton.replication.replicas.model import TabletReport
from tests.integration.replication.world import DB, INTERVAL, SHOP, World

HOUR, DAY = 3_600, 86_400


def read(world: World) -> tuple[BinlogFigures, int]:
    """Return the only instance's figures, and the time by which they are read."""
    with world.db.read() as c:
        now = world.db.now(c)
        (found,) = binlogs.figures(world.db, c, now)
    return found, now


def age(since: int | None, now: int) -> float:
    """Return an age in seconds."""
    assert since is not None
    return (now - since) / 1000


def tables(world: World, n: int) -> None:
    """Make so many tables with a cut each, on two backends, one of which lacks it."""
    for i in range(n):
        world.place(f"t{i}", "b1", "b2", part=f"p{i}", table=f"table{i}")
        world.commit(i + 1, world.now - 60_000, **{f"table{i}": {f"p{i}": 5}})
        world.well(f"t{i}", "b1", 5)
        world.well(f"t{i}", "b2", 3)
    world.look()
    world.cuts("b1")
    world.cuts("b2")


def test_an_instance_without_binlogs_has_no_figures(world: World) -> None:
    with world.db.read() as c:
        assert binlogs.figures(world.db, c, world.now) == []


def test_records_are_counted_once_across_logs(world: World) -> None:
    world.keep(DAY)
    world.keep(DAY, table="orders")  # in its database's log, so no log of its own
    world.keep(enabled=False, db="other")
    world.keep(10, db="other", table="users")
    world.commit(1, orders={"p1": 3})
    world.commit(2, orders={"p1": 4}, users={"p2": 4})
    world.commit(1, world.now - 60_000, db="other", users={"p3": 1})
    world.commit(2, db="other", users={"p3": 2})
    before, _ = read(world)
    world.look()

    after, _ = read(world)

    assert (before.logs, before.records, before.cuts) == (2, 4, 0)
    assert (after.logs, after.records, after.cuts) == (2, 3, 1)
    assert 0 < after.bytes < before.bytes
    assert after.entries == len(world.journal()) > 0


def test_a_dropped_log_is_not_counted(world: World) -> None:
    world.keep(DAY)
    world.commit(1, orders={"p1": 3})
    world.b.configs.drop(SHOP, DB)

    found, _ = read(world)

    assert (found.logs, found.records, found.bytes) == (0, 0, 0)


def test_a_run_refused_by_the_clock_is_not_counted(world: World) -> None:
    world.keep(10)
    world.look()
    world.later(INTERVAL)
    world.look()
    fine, at = read(world)
    world.later(DAY)
    world.look()

    refused, now = read(world)

    assert (fine.refusals, refused.refusals) == (0, 1)
    assert age(fine.quiet_since, at) < 60
    assert age(refused.quiet_since, now) >= DAY


def test_an_observing_instance_is_not_counted_as_late(world: World) -> None:
    world.keep(10)
    Registry(world.db).observe(SHOP)

    found, _ = read(world)

    assert found.quiet_since is None


def test_blocking_and_lost_consumers_are_counted_with_age(world: World) -> None:
    world.keep(10)
    for seq in (1, 2, 3):
        world.commit(seq, world.now - 60_000)
    world.b.consumers.register(SHOP, "c1", DB, after=1)
    world.look()
    world.later(100)
    held, now = read(world)
    world.b.journal.read(SHOP, 0, "silent")
    world.steadily(DAY + 600)

    lost, _ = read(world)

    assert (held.held, held.consumers, held.lost_consumers) == (1, 1, 0)
    assert 100 <= age(held.held_since, now) < 160
    assert (lost.held, lost.held_since, lost.consumers, lost.lost_consumers) == (0, None, 1, 1)
    assert (lost.followers, lost.lost_followers, lost.lag) == (1, 1, 0)


def test_a_cut_that_waits_for_approval_ages(world: World) -> None:
    world.keep(HOUR)
    old = world.now - 2 * HOUR * 1000
    world.b.records.add(SHOP, DB, [Record(commit_seq=n, timestamp=old, type="ALTER") for n in range(1, 1_201)])
    world.look()
    world.later(100)

    found, now = read(world)

    assert (found.waiting, found.records) == (1, 1_200)
    assert 100 <= age(found.waiting_since, now) < 160


def test_the_slowest_follower_counts(world: World) -> None:
    for name in ("one", "other", "third"):
        world.b.configs.drop(SHOP, name)
    world.b.journal.read(SHOP, 0, "slow")
    world.b.journal.read(SHOP, 2, "quick")

    found, _ = read(world)

    assert (found.entries, found.followers, found.lag) == (3, 2, 3)


def test_late_copies_and_blocked_copies_are_counted_apart(world: World) -> None:
    world.keep(10)
    tables(world, 3)
    world.place("unread", "b1", part="px", table="late")
    world.commit(9, world.now - 60_000, late={"px": 1})
    world.well("unread", "b1", 1)
    world.look()
    world.later(50)
    kept, now = read(world)
    for i in range(3):
        world.well(f"t{i}", "b2", 5)
    freed, _ = read(world)
    world.cuts("b1")
    world.done("b1", **{f"t{i}_b1": 5 for i in range(3)})

    done, _ = read(world)

    assert (kept.behind, kept.blocked, freed.behind, freed.blocked) == (7, 6, 7, 0)
    assert (done.behind, done.blocked) == (4, 0)
    assert (kept.behind_backends, kept.unheard_backends, kept.backends) == (2, 0, 2)
    assert 50 <= age(kept.pulled_since, now) < 110


def test_a_backend_that_never_pulled_is_counted_apart(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1", "b2")
    world.commit(1, world.now - 60_000, orders={"p1": 3})
    world.look()
    world.cuts("b1")

    found, _ = read(world)

    assert (found.behind_backends, found.unheard_backends, found.backends) == (2, 1, 1)
    assert found.behind == found.blocked == 2  # nobody has reported


def test_problems_of_copies_are_counted_except_dropped_ones(world: World) -> None:
    world.keep(DAY)
    for n, backends in enumerate((("b1", "b2"), ("b1", "b2"), ("b1", "b2"), ("b1",)), 1):
        world.place(f"t{n}", *backends, part=f"p{n}", table="gone" if n == 4 else "orders")
    bad, gap = TabletReport(uid="t1.b1", bad=True), TabletReport(uid="t2.b1", ranges=((0, 3), (5, 9)))
    crossing = TabletReport(uid="t3.b1", ranges=((0, 5), (3, 8), (6, 8)))
    world.report("b1", bad, gap, crossing, TabletReport(uid="t4.b1", bad=True))
    world.report("b2", *(TabletReport(uid=f"t{n}.b2", version=9) for n in (1, 2, 3)))
    first, _ = read(world)
    world.later(61)
    world.report("b1", bad, gap, crossing)
    world.b.configs.drop(SHOP, DB, "gone")
    marked, now = read(world)
    world.b.replicas.full_copy(SHOP, "t3", "b1", "its disk is old")
    world.later(700)

    stale, _ = read(world)

    none = dict.fromkeys(labels.STATES, 0)
    assert first.unwell == none | {"bad": 2, "gap": 1, "crossing": 1}
    assert marked.unwell == none | {"bad": 1, "gap": 1, "missing": 1, "crossing": 1}
    assert 61 <= age(marked.bad_since, now) < 120
    assert 61 <= age(marked.missing_since, now) < 120
    assert stale.unwell["stale"] == 5
    assert stale.unwell["full_copy_by_person"] == 1


def test_copies_given_up_by_limit_and_by_operator_differ(world: World) -> None:
    world.keep(DAY)
    world.place("t1", "b1", "b2")
    world.report("b1", TabletReport(uid="t1.b1", bad=True))
    world.later(DAY + 1)
    world.well("t1", "b2", 3)
    world.b.replicas.give_up(SHOP)

    found, _ = read(world)

    assert (found.unwell["full_copy_by_limit"], found.unwell["full_copy_by_person"]) == (1, 0)


def test_failed_cuts_are_counted_by_outcome(world: World) -> None:
    world.keep(10)
    for n in range(1, 5):
        world.place(f"t{n}", "b1", part=f"p{n}")
        world.well(f"t{n}", "b1", 5)
    told = {"t1.b1": "quarantined", "t2.b1": "failed", "t3.b1": "strange", "t4.b1": "done"}
    done = [CutDone(uid=uid, version=-1, outcome=its, detail="why") for uid, its in told.items()]
    world.b.sender.acknowledge(SHOP, "b1", done)

    found, _ = read(world)

    assert found.problems == {"quarantined": 1, "failed": 1, "unknown": 0, "other": 1}


def statements(db: Database, world: World) -> int:
    seen: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        read(world)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    return len([s for s in seen if "SELECT" in s.upper()])


def test_statements_do_not_grow_with_logs_and_replicas(world: World) -> None:
    world.keep(10)
    tables(world, 2)
    few = statements(world.db, world)
    tables(world, 12)

    assert statements(world.db, world) == few
    assert few < 15
