"""Count recent failed logins as rows, shared by all processes of the API.

Failures are counted by source, and by name within a source: an attacker cannot lock a user out from elsewhere. The
table stays small: each row costs its sender the verification of a password, and later failures delete expired rows.
"""

import math
from typing import Any

from sqlalchemy import Connection, Row, delete, func, select, tuple_, update

from sexton.database.engine import Database
from sexton.database.rows import upsert
from sexton.operators.access import credentials
from sexton.operators.access.credentials import ALL_NAMES, FORGOTTEN_MS, SOURCE_FAILURES, USER_FAILURES, Failures
from sexton.operators.access.errors import LoginsThrottled

DELETED_AT_ONCE = 100


class LoginThrottle:
    """Decides which logins have to wait. Sources are addresses; names are stored only as slots of their digests."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def check(self, source: str, name: str) -> None:
        """Raise ``LoginsThrottled`` if a login has to wait, whether the user exists or not."""
        t = self._db.t.login_failure
        slots = _slots(name)
        with self._db.read() as c:
            rows = c.execute(select(t).where(t.c.source == credentials.network(source), t.c.slot.in_(slots))).all()
            now = self._db.now(c)
        wait_ms = max((credentials.waits_ms(_failures(row), slots[row.slot], now) for row in rows), default=0)
        if wait_ms:
            raise LoginsThrottled(math.ceil(wait_ms / 1000))

    def failed(self, source: str, name: str) -> None:
        """Count a failed login, and delete some expired rows."""
        network = credentials.network(source)
        with self._db.write() as c:
            now = self._db.now(c)
            for slot, limit in _slots(name).items():
                self._count(c, network, slot, limit, now)
        self._delete_expired()

    def succeeded(self, source: str, name: str) -> None:
        """Reset the count of a name, and subtract it from its source's count: the user only mistyped the password."""
        t, network = self._db.t.login_failure, credentials.network(source)
        of_name = (t.c.source == network) & (t.c.slot == credentials.slot(name))
        of_source = (t.c.source == network) & (t.c.slot == ALL_NAMES)
        with self._db.read() as c:
            if c.execute(select(t.c.failures).where(of_name)).one_or_none() is None:
                return
        with self._db.write() as c:
            # Lock the source's row first, in the same order as ``failed``, to exclude a deadlock.
            c.execute(select(t.c.failures).where(of_source).with_for_update())
            failures = c.execute(delete(t).where(of_name).returning(t.c.failures)).scalar_one_or_none() or 0
            c.execute(update(t).where(of_source).values(failures=func.greatest(t.c.failures - failures, 0)))

    def _count(self, c: Connection, source: str, slot: str, limit: int, now: int) -> None:
        t = self._db.t.login_failure
        this_row = (t.c.source == source) & (t.c.slot == slot)
        new_row = upsert(self._db, t).values(source=source, slot=slot, failures=0, last_at=now)
        # The update changes nothing, but locks the row; the insert replaces a row that is deleted at this moment.
        locked = new_row.on_conflict_do_update(index_elements=[t.c.source, t.c.slot], set_={"failures": t.c.failures})
        row = c.execute(locked.returning(t.c.failures, t.c.last_at)).one()
        failures = credentials.failed(_failures(row), limit, now)
        c.execute(update(t).where(this_row).values(failures=failures.number, last_at=failures.last_at))

    def _delete_expired(self) -> None:
        t = self._db.t.login_failure
        with self._db.write() as c:
            expired = select(t.c.source, t.c.slot).where(t.c.last_at < self._db.now(c) - FORGOTTEN_MS)
            # Skip rows that another process updates now; a process that counts in a deleted row inserts it again.
            unlocked = expired.order_by(t.c.last_at).limit(DELETED_AT_ONCE).with_for_update(skip_locked=True)
            primary_keys = [tuple(row) for row in c.execute(unlocked)]
            if primary_keys:
                c.execute(delete(t).where(tuple_(t.c.source, t.c.slot).in_(primary_keys)))


def _slots(name: str) -> dict[str, int]:
    """Return the slots that count a name's failures, the source's own first, each with its limit."""
    return {ALL_NAMES: SOURCE_FAILURES, credentials.slot(name): USER_FAILURES}


def _failures(row: Row[Any]) -> Failures:
    return Failures(row.failures, row.last_at)
