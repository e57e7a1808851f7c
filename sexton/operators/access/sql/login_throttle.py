"""Logins that failed lately, as rows: every process of the API counts the same.

Counted by source, and by name within a source: nobody can lock a user out from elsewhere. A row costs whoever causes
it one look at a password, and rows that are over go with the next ones, so there are never many.
"""

from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, tuple_, update
from sqlalchemy.dialects import postgresql, sqlite

from sexton.database.engine import Database
from sexton.operators.access import credentials
from sexton.operators.access.credentials import EVERYBODY, FORGOTTEN_MS, SOURCE_FAILURES, USER_FAILURES, Failures
from sexton.operators.access.errors import LoginsThrottled

FORGOTTEN_AT_ONCE = 100


class Throttle:
    """Who has to wait before the next login. Sources are addresses, names whatever somebody gave as a user."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def check(self, source: str, name: str) -> None:
        """Raise ``LoginsThrottled`` where somebody has to wait, whether there is such a user or not."""
        t = self._db.t.login_failure
        slots = _slots(name)
        with self._db.read() as c:
            rows = c.execute(select(t).where(t.c.source == credentials.network(source), t.c.slot.in_(slots))).all()
            now = self._db.now(c)
        waits = max((credentials.waits_ms(_failures(r), slots[r.slot], now) for r in rows), default=0)
        if waits:
            raise LoginsThrottled(-(-waits // 1000))

    def failed(self, source: str, name: str) -> None:
        """Count one that failed, and forget some that are over."""
        where = credentials.network(source)
        with self._db.write() as c:
            now = self._db.now(c)
            for slot, limit in _slots(name).items():
                self._count(c, where, slot, limit, now)
        self._forget()

    def succeeded(self, source: str, name: str) -> None:
        """End the count of a user; what was only mistyped is taken off that of its source too."""
        t, where = self._db.t.login_failure, credentials.network(source)
        its = (t.c.source == where) & (t.c.slot == credentials.slot(name))
        with self._db.read() as c:
            if c.execute(select(t.c.failures).where(its)).one_or_none() is None:
                return
        all_ = (t.c.source == where) & (t.c.slot == EVERYBODY)
        with self._db.write() as c:
            # The source's row first, as ``failed`` does: two never wait for each other in a circle.
            c.execute(select(t.c.failures).where(all_).with_for_update())
            mine = c.execute(delete(t).where(its).returning(t.c.failures)).scalar_one_or_none() or 0
            larger = func.greatest if self._db.dialect == "postgresql" else func.max
            c.execute(update(t).where(all_).values(failures=larger(t.c.failures - mine, 0)))

    def _count(self, c: Connection, source: str, slot: str, limit: int, now: int) -> None:
        t = self._db.t.login_failure
        dialect = postgresql if self._db.dialect == "postgresql" else sqlite
        its = (t.c.source == source) & (t.c.slot == slot)
        new = dialect.insert(t).values(source=source, slot=slot, failures=0, last_at=now)
        # As an update it locks the row, and makes it where another process forgets it in this moment.
        same = new.on_conflict_do_update(index_elements=[t.c.source, t.c.slot], set_={"failures": t.c.failures})
        row = c.execute(same.returning(t.c.failures, t.c.last_at)).one()
        after = credentials.failed(_failures(row), limit, now)
        c.execute(update(t).where(its).values(failures=after.number, last_at=after.last_at))

    def _forget(self) -> None:
        t = self._db.t.login_failure
        with self._db.write() as c:
            over = select(t.c.source, t.c.slot).where(t.c.last_at < self._db.now(c) - FORGOTTEN_MS)
            # Skipping what others count in this moment: whoever counts in a forgotten row makes it anew.
            some = over.order_by(t.c.last_at).limit(FORGOTTEN_AT_ONCE).with_for_update(skip_locked=True)
            gone = [tuple(r) for r in c.execute(some)]
            if gone:
                c.execute(delete(t).where(tuple_(t.c.source, t.c.slot).in_(gone)))


def _slots(name: str) -> dict[str, int]:
    """Return where a name's failures are counted, the source's own first, and how many are allowed."""
    return {EVERYBODY: SOURCE_FAILURES, credentials.slot(name): USER_FAILURES}


def _failures(row: Row[Any]) -> Failures:
    return Failures(row.failures, row.last_at)
