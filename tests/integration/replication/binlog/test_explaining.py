"""The explanation of a log predicts the next cut and names every blocker."""

import pytest

from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.replication.binlog.model import BinlogSettings, LogCounts, LogExplanation, LogRetention
from sexton.replication.binlog.sql.rows import count_logs, logs_with_blocker
from sexton.replication.errors import UnknownLog
from sexton.replication.replicas.model import TabletReport
from tests.integration.replication.binlog_instance import DB, STEP, BinlogInstance, new_instance

HOUR, DAY = 3_600, 86_400


def explain_log(binlogs: BinlogInstance, table: str = "") -> LogExplanation:
    return binlogs.service.explain(binlogs.instance, DB, table)


def figures(binlogs: BinlogInstance) -> LogCounts:
    with binlogs.db.read() as c:
        return count_logs(binlogs.db, c, binlogs.instance)


def test_the_explanation_equals_the_next_cut(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    old = binlogs.now - 200_000
    for seq in (1, 2, 3):
        binlogs.commit(seq, old, orders={"p1": seq})
    binlogs.commit(4, orders={"p1": 4})
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=2)

    (line,) = explain_log(binlogs).lines
    report = binlogs.cut_expired()

    assert (line.expired, line.goes, line.cut.seq, line.cut.held) == (3, 2, 2, {"lisbon": 2})
    assert (report.records, binlogs.log().watermark) == (2, 2)
    assert explain_log(binlogs).lines[0].goes == 0
    assert [(c.name, c.acked) for c in explain_log(binlogs).consumers] == [("lisbon", 2)]


def test_explaining_writes_nothing(db: Database) -> None:
    binlogs = new_instance(db, BinlogSettings(hold_limit_seconds=HOUR))
    binlogs.configure_log(100)
    binlogs.commit(1, binlogs.now - 200_000)
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB, after=0)
    binlogs.configure_log(None)
    binlogs.pass_time(HOUR + STEP)
    binlogs.configure_log(100)  # who is silent for so long holds nothing, and is LOST once something is cut
    before = (binlogs.log(), binlogs.service.consumers.all(binlogs.instance))

    found = explain_log(binlogs)

    assert (found.lines[0].cut.held, found.lines[0].goes, found.consumers[0].lost_at) == ({}, 1, None)
    assert (binlogs.log(), binlogs.service.consumers.all(binlogs.instance)) == before


def test_tables_without_a_database_log_are_explained_singly(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(enabled=False)
    binlogs.configure_log(10, table="orders")
    binlogs.configure_log(DAY, table="users")
    binlogs.commit(1, binlogs.now - 60_000, orders={"p1": 3}, users={"p2": 3})

    assert [(i.log.tbl, i.goes) for i in explain_log(binlogs).lines] == [("orders", 1), ("users", 0)]
    assert (explain_log(binlogs).logs, explain_log(binlogs, "users").logs) == (2, 1)
    assert [i.log.tbl for i in explain_log(binlogs, "users").lines] == ["users"]
    with pytest.raises(UnknownLog):
        explain_log(binlogs, "none")
    binlogs.configure_log(10)
    assert [i.log.tbl for i in explain_log(binlogs, "orders").lines] == [""]


def test_approvals_halts_and_clock_jumps_are_named(db: Database) -> None:
    binlogs = new_instance(db, BinlogSettings(free_records=3))
    binlogs.configure_log(DAY)
    for seq in range(1, 6):
        binlogs.commit(seq, binlogs.now - 2 * DAY * 1000)
    binlogs.cut_expired()
    (line,), clock = explain_log(binlogs).lines, explain_log(binlogs).clock
    binlogs.later(2 * DAY)
    Registry(db).observe(binlogs.instance)
    found = explain_log(binlogs)

    assert (line.cut.awaiting_seq, line.waits, line.goes, clock) == (5, 5, 0, "")
    assert "only observes" in found.halted
    assert "moved forward" in found.clock
    with db.read() as c:
        assert [its.awaiting_seq for its in logs_with_blocker(db, c, binlogs.instance)] == [5]


def test_a_dropped_log_is_shown_as_dropped(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.commit(1, orders={"p1": 3})
    binlogs.service.configs.drop(binlogs.instance, DB)

    assert (explain_log(binlogs).lines, explain_log(binlogs).dropped_at is not None) == ((), True)
    assert figures(binlogs) == LogCounts(databases=1)


def test_copies_that_lack_versions_are_named_as_blockers(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for n in range(3):
        binlogs.place(f"t{n}", "b1", "b2", "b3", part=f"p{n}")
        binlogs.report_whole(f"t{n}", "b1", 5)
        binlogs.report_whole(f"t{n}", "b2", 5 if n else 3)
    binlogs.report("b3", TabletReport(uid="t1.b3", bad=True))
    binlogs.later(700)  # what was placed and has never told anything is not fresh any more; nor are the others
    for n in range(3):
        binlogs.report_whole(f"t{n}", "b1", 5)
        binlogs.report_whole(f"t{n}", "b2", 5 if n else 3)
    binlogs.commit(1, binlogs.now - 60_000, orders={"p0": 5, "p1": 5, "p2": 5})
    binlogs.cut_expired()
    binlogs.granted_cuts("b1")

    found = explain_log(binlogs)
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
    assert figures(binlogs).behind == 3


def test_a_copy_given_up_is_not_waited_for(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.place("t1", "b1", "b2")
    binlogs.report_whole("t1", "b1", 5)
    binlogs.commit(1, binlogs.now - 60_000, orders={"p1": 5})
    binlogs.cut_expired(500)
    binlogs.report_whole("t1", "b1", 5)
    binlogs.later(300)
    held = explain_log(binlogs).holders
    binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b2", "a test")
    free = explain_log(binlogs).holders
    binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b1", "a test")
    (nobody,) = explain_log(binlogs).holders

    assert [h.backend for h in held] == ["b2"]
    assert free == ()
    assert (nobody.backend, nobody.copies) == ("", 1)
    assert "no replica counts" in nobody.why


def test_tables_in_a_database_log_are_counted_once(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    binlogs.service.configs.put(binlogs.instance, DB, "orders", LogRetention())
    binlogs.commit(1, orders={"p1": 1})
    binlogs.commit(2, orders={"p1": 2}, users={"p2": 1})
    binlogs.service.consumers.register(binlogs.instance, "lisbon", DB)

    found = figures(binlogs)

    assert (found.databases, found.logs, found.records, found.consumers, found.lost) == (1, 1, 2, 1, 0)
