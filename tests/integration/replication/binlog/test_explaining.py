"""What people are told of binlogs: the same that a cut then does, because of whom no more, and in how many copies."""

import pytest

from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.replication.binlog.errors import UnknownLog
from sexton.replication.binlog.model import BinlogSettings, LogRetention
from sexton.replication.binlog.sql.explain import LogExplanation, explain
from sexton.replication.binlog.sql.figures import LogCounts, count_logs, logs_with_blocker
from sexton.replication.replicas.model import BackendStanding, RetainingReplica, TabletReport
from sexton.replication.replicas.sql import figures as copies
from tests.integration.replication.world import DB, SHOP, STEP, World

DAY = 86_400


def told(world: World, table: str = "") -> LogExplanation:
    return explain(world.db, world.b, SHOP, DB, table)


def standing(world: World, backend: str) -> BackendStanding:
    with world.db.read() as c:
        return next(b for b in copies.backend_standings(world.db, c, SHOP) if b.backend == backend)


def figures(world: World) -> LogCounts:
    with world.db.read() as c:
        return count_logs(world.db, c, SHOP)


def test_what_is_explained_is_what_a_cut_does(world: World) -> None:
    world.keep(100)
    old = world.now - 200_000
    for seq in (1, 2, 3):
        world.commit(seq, old, orders={"p1": seq})
    world.commit(4, orders={"p1": 4})
    world.b.consumers.register(SHOP, "lisbon", DB, after=2)

    (line,) = told(world).lines
    report = world.look()

    assert (line.expired, line.goes, line.cut.seq, line.cut.held) == (3, 2, 2, {"lisbon": 2})
    assert (report.records, world.log().watermark) == (2, 2)
    assert told(world).lines[0].goes == 0
    assert [(c.name, c.acked) for c in told(world).consumers] == [("lisbon", 2)]


def test_explaining_writes_nothing(world: World) -> None:
    world.keep(100)
    world.commit(1, world.now - 200_000)
    world.b.consumers.register(SHOP, "lisbon", DB, after=0)
    world.keep(None)
    world.steadily(DAY + STEP)
    world.keep(100)  # who is silent for so long holds nothing, and is LOST once something is cut
    before = (world.log(), world.b.consumers.all(SHOP))

    found = told(world)

    assert (found.lines[0].cut.held, found.lines[0].goes, found.consumers[0].lost_at) == ({}, 1, None)
    assert (world.log(), world.b.consumers.all(SHOP)) == before


def test_tables_without_a_log_of_their_database_are_explained_one_by_one(world: World) -> None:
    world.keep(enabled=False)
    world.keep(10, table="orders")
    world.keep(DAY, table="users")
    world.commit(1, world.now - 60_000, orders={"p1": 3}, users={"p2": 3})

    assert [(i.log.tbl, i.goes) for i in told(world).lines] == [("orders", 1), ("users", 0)]
    assert (told(world).logs, told(world, "users").logs) == (2, 1)
    assert [i.log.tbl for i in told(world, "users").lines] == ["users"]
    with pytest.raises(UnknownLog):
        told(world, "none")


def test_a_table_is_explained_by_the_log_of_its_database(world: World) -> None:
    world.keep(10)
    world.commit(1, world.now - 60_000, orders={"p1": 3})

    assert [(i.log.tbl, i.goes) for i in told(world, "orders").lines] == [("", 1)]


def test_who_waits_who_halts_and_which_clock_are_named(db: Database) -> None:
    world = World(db, BinlogSettings(free_records=3))
    world.keep(DAY)
    for seq in range(1, 6):
        world.commit(seq, world.now - 2 * DAY * 1000)
    world.look()
    (line,), clock = told(world).lines, told(world).clock
    world.later(2 * DAY)
    Registry(db).observe(SHOP)
    found = told(world)

    assert (line.cut.awaiting_seq, line.waits, line.goes, clock) == (5, 5, 0, "")
    assert "only observes" in found.halted
    assert "moved forward" in found.clock
    with db.read() as c:
        assert [its.awaiting_seq for its in logs_with_blocker(db, c, SHOP)] == [5]


def test_a_dropped_log_is_said_to_be_dropped(world: World) -> None:
    world.keep(10)
    world.commit(1, orders={"p1": 3})
    world.b.configs.drop(SHOP, DB)

    assert (told(world).lines, told(world).dropped_at is not None) == ((), True)
    assert figures(world) == LogCounts(databases=1)


def test_copies_that_lack_something_are_named_as_those_that_others_keep_for(world: World) -> None:
    world.keep(10)
    for n in range(3):
        world.place(f"t{n}", "b1", "b2", "b3", part=f"p{n}")
        world.well(f"t{n}", "b1", 5)
        world.well(f"t{n}", "b2", 5 if n else 3)
    world.report("b3", TabletReport(uid="t1.b3", bad=True))
    world.later(700)  # what was placed and has never told anything is not fresh any more; nor are the others
    for n in range(3):
        world.well(f"t{n}", "b1", 5)
        world.well(f"t{n}", "b2", 5 if n else 3)
    world.commit(1, world.now - 60_000, orders={"p0": 5, "p1": 5, "p2": 5})
    world.look()
    world.cuts("b1")

    found = told(world)
    slow, dead = found.holders
    assert (slow.backend, slow.copies, slow.why) == ("b2", 1, "1 not as far yet")
    assert (dead.backend, dead.copies, dead.bad, dead.silent) == ("b3", 3, 1, 2)
    assert dead.why == "1 bad, 2 without a fresh report"
    assert dead.since is not None
    assert [(h.replica.tablet, h.replica.backend) for h in found.named][:3] == [
        ("t0", "b3"),
        ("t1", "b3"),
        ("t2", "b3"),
    ]
    assert found.named[1].why == "bad, no fresh report"
    assert [(b.backend, b.behind) for b in found.backends] == [("b1", 3), ("b2", 3), ("b3", 3)]
    assert found.backends[0].pulled_at is not None
    assert figures(world).behind == 3


def test_when_what_lacked_counts_no_more_nobody_is_waited_for(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1", "b2")
    world.well("t1", "b1", 5)
    world.commit(1, world.now - 60_000, orders={"p1": 5})
    world.later(500)
    world.look()
    world.well("t1", "b1", 5)
    world.later(300)
    held = told(world).holders
    world.b.replicas.full_copy(SHOP, "t1", "b2", "a test")
    free = told(world).holders
    world.b.replicas.full_copy(SHOP, "t1", "b1", "a test")
    (nobody,) = told(world).holders

    assert [h.backend for h in held] == ["b2"]
    assert free == ()
    assert (nobody.backend, nobody.copies) == ("", 1)
    assert "no replica counts" in nobody.why


def test_backends_are_counted_with_what_is_wrong(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1", "b2")
    world.place("t2", "b1", table="users", part="p2")
    world.well("t1", "b1", 5)
    world.report("b2", TabletReport(uid="t1.b2", ranges=((0, 2), (4, 5))))
    world.commit(1, world.now - 60_000, orders={"p1": 2})
    world.look()
    granted = world.cuts("b1")
    world.done("b1", t1_b1=2)
    with world.db.read() as c:
        here = copies.backend_standings(world.db, c, SHOP, DB, "users")
        count = (
            copies.count_live_copies(world.db, c, SHOP, DB),
            copies.count_live_copies(world.db, c, SHOP, DB, "users"),
        )

    assert granted == {"t1.b1": 2}
    assert (standing(world, "b1").copies, standing(world, "b1").behind, standing(world, "b1").missing) == (2, 0, 0)
    assert (standing(world, "b2").missing, standing(world, "b2").behind) == (1, 1)
    assert [(b.backend, b.copies) for b in here] == [("b1", 1)]
    assert count == (3, 1)


def test_a_holder_in_words_is_whole() -> None:
    assert RetainingReplica(backend="b1", copies=6, bad=1, missing=2, silent=1).why == (
        "1 bad, 2 missing versions, 1 without a fresh report, 2 not as far yet"
    )


def test_logs_are_counted_once_where_tables_are_in_their_databases(world: World) -> None:
    world.keep(100)
    world.b.configs.put(SHOP, DB, "orders", LogRetention())
    world.commit(1, orders={"p1": 1})
    world.commit(2, orders={"p1": 2}, users={"p2": 1})
    world.b.consumers.register(SHOP, "lisbon", DB)

    found = figures(world)

    assert (found.databases, found.logs, found.records, found.consumers, found.lost) == (1, 1, 2, 1, 0)
