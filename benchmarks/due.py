"""What choosing what is due costs: pages touched on PostgreSQL, at 100,000 marks and at ten times that.

The same 1,000 marks are due in each. Goal: at most 1.1 times the pages; for status, at most 1.5 times the time.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from benchmarks.contenders import DEPLOYMENT, INSTANCE, KIND, POLICY, RETENTION_SECONDS, insert_marks
from benchmarks.results import Figure, Result, at_most
from sexton.database import schema
from sexton.database.engine import Database
from sexton.insight.kinds import kind_statuses
from sexton.operators.registry.store import Registry
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from sexton.recycle.planning.policy import cutoff
from sexton.recycle.planning.sql.plans import PlanStore
from tests.servers.postgres import Cluster

DUE = 1_000
SIZES = (100_000, 1_000_000)
SOAK = (100_000, 1_000_000, 10_000_000)
MOST_GROWTH = 1.1
STATUSES, MOST_SLOWER = 20, 1.5
Asked = list[tuple[str, Any]]


@contextmanager
def _reads(db: Database) -> Iterator[Asked]:
    """Collect the SELECTs that are sent meanwhile."""
    asked: Asked = []

    def hear(_c: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            asked.append((statement, parameters))

    event.listen(db.engine, "before_cursor_execute", hear)
    try:
        yield asked
    finally:
        event.remove(db.engine, "before_cursor_execute", hear)


def _pages(db: Database, asked: Asked) -> list[tuple[int, str]]:
    """Run each statement once more and return the pages it touches, in memory or not, with its text."""
    found = []
    with db.read() as c:
        for statement, parameters in asked:
            told = c.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", parameters).scalar_one()
            top = (told if isinstance(told, list) else json.loads(told))[0]["Plan"]
            found.append((top["Shared Hit Blocks"] + top["Shared Read Blocks"], " ".join(statement.split())))
    return found


def vacuum(db: Database) -> None:
    """Give the planner the statistics of the marks as they are."""
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.exec_driver_sql("VACUUM (ANALYZE) sexton.mark")


def _status_us(db: Database) -> int:
    """Return the shortest time in which marks are counted for ``sexton status``."""
    took = []
    for _ in range(STATUSES):
        with db.read() as c:
            now, began = db.now(c), time.perf_counter()
            kind_statuses(db, c, {INSTANCE: POLICY}, now)
            took.append(time.perf_counter() - began)
    return round(min(took) * 1e6)


def _measure(cluster: Cluster, marks: int) -> dict[str, list[tuple[int, str]]]:
    """Return the statements of due selection and of planning, each with its pages."""
    url = cluster.create_database()
    schema.init(url, DEPLOYMENT)
    db = Database.open(url)
    registry = Registry(db)
    registry.add_instance(INSTANCE)
    registry.enable(INSTANCE)
    insert_marks(db, 1, DUE)
    schema.move_clock(db, RETENTION_SECONDS + 1)
    insert_marks(db, DUE + 1, marks)
    vacuum(db)
    with db.read() as c:
        due_by = cutoff(KIND, POLICY, db.now(c)) or 0
    store = DueMarkStore(db)
    with _reads(db) as choosing:
        due = store.select_due(INSTANCE, KIND, due_by, Cursor(), DUE)
        rest = store.select_due(
            INSTANCE, KIND, due_by, Cursor(retention_starts_at=due[-1].retention_starts_at, id=due[-1].id), DUE
        )
    with _reads(db) as planning:
        plan = PlanStore(db, ()).plan_for_round(INSTANCE, POLICY, "bench")
    if (len(due), len(rest), plan.marks) != (DUE, 0, DUE):
        raise AssertionError(f"{len(due)} + {len(rest)} marks are due and {plan.marks} planned, there should be {DUE}")
    found = {"choosing": _pages(db, choosing), "planning": _pages(db, planning), "status in µs": [(_status_us(db), "")]}
    db.close()
    return found


def run(sizes: Sequence[int] = SIZES) -> Result:
    """Measure."""
    cluster, found = Cluster(fsync=False), {}
    try:
        for marks in sizes:
            found[marks] = _measure(cluster, marks)
            each = ", ".join(f"{what} {sum(n for n, _ in s):,}" for what, s in found[marks].items())
            print(f"{marks:,} marks, {DUE:,} of them due: {each}", flush=True)
    finally:
        cluster.stop()
    total = {marks: {what: sum(n for n, _ in s) for what, s in of.items()} for marks, of in found.items()}
    first, last = total[sizes[0]], total[sizes[-1]]
    figures = [
        Figure(f"at {marks:,} marks, in pages: {', '.join(of)}", ", ".join(f"{n:,}" for n in of.values()))
        for marks, of in total.items()
    ]
    figures += [
        at_most(
            f"{what}: at {sizes[-1]:,} against {sizes[0]:,} marks",
            last[what] / first[what],
            MOST_SLOWER if what.startswith("status") else MOST_GROWTH,
            "x",
        )
        for what in first
    ]
    sizes_ = {"marks": ", ".join(f"{n:,}" for n in sizes), "due": DUE, "database": "PostgreSQL, after VACUUM ANALYZE"}
    return Result("due", sizes_, figures, {"pages": total, "statements": found})
