"""Metrics of binlogs, journals and replicas equal the tables."""

from sqlalchemy import event

from sexton.database.engine import Database
from sexton.insight.metrics.figures.logs import binlog_figures
from sexton.insight.metrics.model import STATES, BinlogFigures
from sexton.operators.registry.store import Registry
from sexton.replication.agent.model import CutDone
from sexton.replication.binlog.model import BinlogSettings, StoredRecord
from sexton.replication.replicas.model import TabletReport
from tests.integration.replication.binlog_instance import DB, INTERVAL, BinlogInstance, new_instance

HOUR, DAY = 3_600, 86_400


def read(binlogs: BinlogInstance) -> tuple[BinlogFigures, int]:
    """Return an instance's figures, and the time by which they are read."""
    with binlogs.db.read() as c:
        now = binlogs.db.now(c)
        (found,) = (f for f in binlog_figures(binlogs.db, c, now) if f.instance == binlogs.instance)
    return found, now


def age(since: int | None, now: int) -> float:
    """Return an age in seconds."""
    assert since is not None
    return (now - since) / 1000


def tables(binlogs: BinlogInstance, n: int) -> None:
    """Make so many tables with a cut each, on two backends, one of which lacks it."""
    for i in range(n):
        binlogs.place(f"t{i}", "b1", "b2", part=f"p{i}", table=f"table{i}")
        binlogs.commit(i + 1, binlogs.now - 60_000, **{f"table{i}": {f"p{i}": 5}})
        binlogs.report_whole(f"t{i}", "b1", 5)
        binlogs.report_whole(f"t{i}", "b2", 3)
    binlogs.cut_expired()
    binlogs.granted_cuts("b1")
    binlogs.granted_cuts("b2")


def test_records_are_counted_once_across_logs(binlogs: BinlogInstance) -> None:
    with binlogs.db.read() as c:
        assert binlogs.instance not in {f.instance for f in binlog_figures(binlogs.db, c, binlogs.now)}
    binlogs.configure_log(DAY)
    binlogs.configure_log(DAY, table="orders")  # in its database's log, so no log of its own
    binlogs.configure_log(enabled=False, db="other")
    binlogs.configure_log(10, db="other", table="users")
    binlogs.commit(1, orders={"p1": 3})
    binlogs.commit(2, orders={"p1": 4}, users={"p2": 4})
    binlogs.commit(1, binlogs.now - 60_000, db="other", users={"p3": 1})
    binlogs.commit(2, db="other", users={"p3": 2})
    before, _ = read(binlogs)
    binlogs.cut_expired()

    after, _ = read(binlogs)
    entries = len(binlogs.journal())
    for db in (DB, "other"):
        binlogs.service.configs.drop(binlogs.instance, db)
    dropped, _ = read(binlogs)

    assert (before.logs, before.records, before.cuts) == (2, 4, 0)
    assert (after.logs, after.records, after.cuts) == (2, 3, 1)
    assert 0 < after.bytes < before.bytes
    assert after.entries == entries > 0
    assert (dropped.logs, dropped.records, dropped.bytes) == (0, 0, 0)


def test_a_run_that_the_clock_refused_is_late_unless_it_observes(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.cut_expired()
    binlogs.cut_expired(INTERVAL)
    fine, at = read(binlogs)
    binlogs.cut_expired(DAY)

    refused, now = read(binlogs)
    Registry(binlogs.db).observe(binlogs.instance)

    assert read(binlogs)[0].quiet_since is None
    assert (fine.refusals, refused.refusals) == (0, 1)
    assert age(fine.quiet_since, at) < 60
    assert age(refused.quiet_since, now) >= DAY


def test_blocking_and_lost_consumers_are_counted_with_age(db: Database) -> None:
    binlogs = new_instance(db, BinlogSettings(hold_limit_seconds=HOUR))
    binlogs.configure_log(10)
    for seq in (1, 2, 3):
        binlogs.commit(seq, binlogs.now - 60_000)
    binlogs.service.consumers.register(binlogs.instance, "c1", DB, after=1)
    binlogs.cut_expired()
    binlogs.later(100)
    held, now = read(binlogs)
    binlogs.service.journal.read(binlogs.instance, 0, "silent")
    binlogs.pass_time(HOUR + 600)

    lost, _ = read(binlogs)

    assert (held.held, held.consumers, held.lost_consumers) == (1, 1, 0)
    assert 100 <= age(held.held_since, now) < 160
    assert (lost.held, lost.held_since, lost.consumers, lost.lost_consumers) == (0, None, 1, 1)
    assert (lost.followers, lost.lost_followers, lost.lag) == (1, 1, 0)


def test_a_cut_that_waits_for_approval_ages(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(HOUR)
    old = binlogs.now - 2 * HOUR * 1000
    binlogs.service.records.add(
        binlogs.instance, DB, [StoredRecord(commit_seq=n, timestamp=old, type="ALTER") for n in range(1, 1_201)]
    )
    binlogs.cut_expired()
    binlogs.later(100)

    found, now = read(binlogs)

    assert (found.waiting, found.records) == (1, 1_200)
    assert 100 <= age(found.waiting_since, now) < 160


def test_the_slowest_follower_counts(binlogs: BinlogInstance) -> None:
    for name in ("one", "other", "third"):
        binlogs.service.configs.drop(binlogs.instance, name)
    binlogs.service.journal.read(binlogs.instance, 0, "slow")
    binlogs.service.journal.read(binlogs.instance, 2, "quick")

    found, _ = read(binlogs)

    assert (found.entries, found.followers, found.lag) == (3, 2, 3)


def test_late_copies_and_blocked_copies_are_counted_apart(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    tables(binlogs, 3)
    binlogs.place("unread", "b1", part="px", table="late")
    binlogs.commit(9, binlogs.now - 60_000, late={"px": 1})
    binlogs.report_whole("unread", "b1", 1)
    binlogs.cut_expired()
    binlogs.later(50)
    kept, now = read(binlogs)
    for i in range(3):
        binlogs.report_whole(f"t{i}", "b2", 5)
    freed, _ = read(binlogs)
    binlogs.granted_cuts("b1")
    binlogs.acknowledge_cuts("b1", **{f"t{i}_b1": 5 for i in range(3)})

    done, _ = read(binlogs)

    assert (kept.behind, kept.blocked, freed.behind, freed.blocked) == (7, 6, 7, 0)
    assert (done.behind, done.blocked) == (4, 0)
    assert (kept.behind_backends, kept.unheard_backends, kept.backends) == (2, 0, 2)
    assert 50 <= age(kept.pulled_since, now) < 110


def test_a_backend_that_never_pulled_is_counted_apart(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.place("t1", "b1", "b2")
    binlogs.commit(1, binlogs.now - 60_000, orders={"p1": 3})
    binlogs.cut_expired()
    binlogs.granted_cuts("b1")

    found, _ = read(binlogs)

    assert (found.behind_backends, found.unheard_backends, found.backends) == (2, 1, 1)
    assert found.behind == found.blocked == 2  # nobody has reported


def test_problems_of_copies_are_counted_except_dropped_ones(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(DAY)
    for n, backends in enumerate((("b1", "b2"), ("b1", "b2"), ("b1", "b2"), ("b1",)), 1):
        binlogs.place(f"t{n}", *backends, part=f"p{n}", table="gone" if n == 4 else "orders")
    bad, gap = TabletReport(uid="t1.b1", bad=True), TabletReport(uid="t2.b1", ranges=((0, 3), (5, 9)))
    crossing = TabletReport(uid="t3.b1", ranges=((0, 5), (3, 8), (6, 8)))
    binlogs.report("b1", bad, gap, crossing, TabletReport(uid="t4.b1", bad=True))
    binlogs.report("b2", *(TabletReport(uid=f"t{n}.b2", version=9) for n in (1, 2, 3)))
    first, _ = read(binlogs)
    binlogs.later(61)
    binlogs.report("b1", bad, gap, crossing)
    binlogs.service.configs.drop(binlogs.instance, DB, "gone")
    marked, now = read(binlogs)
    binlogs.service.replicas.full_copy(binlogs.instance, "t3", "b1", "its disk is old")
    binlogs.later(700)

    stale, _ = read(binlogs)
    binlogs.later(DAY)
    binlogs.report_whole("t1", "b2", 9)
    binlogs.service.replicas.give_up(binlogs.instance)
    given_up, _ = read(binlogs)

    none = dict.fromkeys(STATES, 0)
    assert first.unwell == none | {"bad": 2, "gap": 1, "crossing": 1}
    assert marked.unwell == none | {"bad": 1, "gap": 1, "missing": 1, "crossing": 1}
    assert 61 <= age(marked.bad_since, now) < 120
    assert 61 <= age(marked.missing_since, now) < 120
    assert stale.unwell["stale"] == 5
    assert (stale.unwell["full_copy_by_person"], stale.unwell["full_copy_by_limit"]) == (1, 0)
    assert (given_up.unwell["full_copy_by_person"], given_up.unwell["full_copy_by_limit"]) == (1, 1)


def test_failed_cuts_are_counted_by_outcome(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for n in range(1, 5):
        binlogs.place(f"t{n}", "b1", part=f"p{n}")
        binlogs.report_whole(f"t{n}", "b1", 5)
    told = {"t1.b1": "quarantined", "t2.b1": "failed", "t3.b1": "strange", "t4.b1": "done"}
    done = [CutDone(uid=uid, version=-1, outcome=its, detail="why") for uid, its in told.items()]
    binlogs.service.sender.acknowledge(binlogs.instance, "b1", done)

    found, _ = read(binlogs)

    assert found.problems == {"quarantined": 1, "failed": 1, "unknown": 0, "other": 1}


def statements(db: Database, binlogs: BinlogInstance) -> int:
    seen: list[str] = []

    def note(_c: object, _cursor: object, statement: str, *_: object) -> None:
        seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        read(binlogs)
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
    return len([s for s in seen if "SELECT" in s.upper()])


def test_statements_do_not_grow_with_logs_and_replicas(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    tables(binlogs, 2)
    few = statements(binlogs.db, binlogs)
    tables(binlogs, 12)

    assert statements(binlogs.db, binlogs) == few
    assert few < 15
