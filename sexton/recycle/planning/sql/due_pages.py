"""Read due marks page by page, without those that holds block; say when the next mark is due."""

from collections.abc import Iterator, Sequence

from sqlalchemy import Connection, and_, false, func, not_, or_, select

from sexton.database.engine import Database
from sexton.database.ranges import beyond
from sexton.marks.model import DueMark
from sexton.marks.sql.rows import due_columns, read_due, waits
from sexton.operators.holds import conditions
from sexton.recycle.planning.model import KindPlan, Policy

PAGE_MARKS = 1_000


def unheld_marks(db: Database, instance: str, planned: KindPlan) -> Iterator[Sequence[DueMark]]:
    """Yield pages of the marks of a planned kind that no hold blocks."""
    mark = db.t.mark
    position = (mark.c.retention_starts_at, mark.c.id)
    with db.read() as c:
        is_held = or_(false(), *conditions.blocked_by_hold(db, c, instance).values())
    due = and_(mark.c.instance == instance, mark.c.kind == planned.kind, waits(mark), not_(is_held))
    due = and_(due, mark.c.retention_starts_at <= planned.cutoff)
    after = (planned.since + 1, "") if planned.since else (0, "")
    while True:
        page = select(*due_columns(mark)).where(due, beyond(position, after)).limit(PAGE_MARKS)
        with db.read() as c:
            marks = read_due(c, page, position)
        if not marks:
            return
        yield marks
        after = (marks[-1].retention_starts_at, marks[-1].id)


def next_due(db: Database, c: Connection, instance: str, kind: str, policy: Policy, now: int) -> int | None:
    """Return when the first mark of a kind is due that is not due yet, in ms since 1970; None: there is none."""
    mark, retention = db.t.mark, policy.retention(kind)
    if retention is None:
        return None
    later = and_(mark.c.instance == instance, mark.c.kind == kind, waits(mark))
    later = and_(later, mark.c.retention_starts_at > now - 1000 * retention)
    first = c.execute(select(func.min(mark.c.retention_starts_at)).where(later)).scalar_one()
    return None if first is None else int(first) + 1000 * retention
