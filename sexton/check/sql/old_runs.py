"""Delete the rows of checks that are too old, and of findings that were gone by then."""

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Table, and_, delete, func, select

from sexton.check.model import FindingState, RunState
from sexton.database.engine import Database

RUN_DAYS = 400
PAGE_ROWS = 1_000
MOST_PAGES = 50
"""A check deletes at most this many pages of rows; the next check continues."""


def forget_old_runs(db: Database, instance: str) -> None:
    """Delete runs that ended more than ``RUN_DAYS`` ago, and GONE findings that were last seen by such a run.

    The newest run and the newest whole run stay, for people to see. Findings that are open, accepted or repaired stay
    too.
    """
    run, finding = db.t.check_run, db.t.finding
    for _ in range(MOST_PAGES):
        with db.write() as c:
            is_old = _is_old(db, c, instance)
            last_old = c.execute(select(func.max(run.c.id)).where(is_old)).scalar_one()
            if last_old is None:
                return
            of_instance = finding.c.instance == instance
            is_gone = and_(of_instance, finding.c.state == FindingState.GONE, finding.c.seen_in <= last_old)
            deleted = _delete_page(c, finding, is_gone)
            deleted += _delete_page(c, run, and_(is_old, run.c.id.not_in(_needed(run, instance))))
        if not deleted:
            return


def _is_old(db: Database, c: Connection, instance: str) -> ColumnElement[bool]:
    run = db.t.check_run
    ended_long_ago = run.c.ended_at < db.now(c) - RUN_DAYS * 86_400_000
    return and_(run.c.instance == instance, run.c.state != RunState.RUNNING, ended_long_ago)


def _needed(run: Table, instance: str) -> CompoundSelect[int]:
    newest = select(func.max(run.c.id)).where(run.c.instance == instance)
    return newest.union(newest.where(run.c.state == RunState.WHOLE))


def _delete_page(c: Connection, table: Table, condition: ColumnElement[bool]) -> int:
    page = select(table.c.id).where(condition).limit(PAGE_ROWS)
    return c.execute(delete(table).where(table.c.id.in_(page))).rowcount
