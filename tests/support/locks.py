"""See that somebody waits for a lock: the reason to wait, in place of a pause after which nothing has happened."""

import threading

from sqlalchemy import text

from sexton.database.engine import Database
from tests.support.eventually import eventually

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    " AND backend_type = 'client backend'"
)


def lock_waiters(db: Database) -> int:
    """Return how many sessions of a database wait for a lock."""
    with db.read() as c:
        return int(c.execute(WAITING).scalar_one())


def wait_for_lock_waiter(db: Database, sessions: int = 1) -> None:
    """Return when so many sessions of a database wait for a lock."""
    eventually("somebody waits for a lock", lambda: lock_waiters(db) >= sessions)


def wait_until_blocked_or_ended(db: Database, thread: threading.Thread) -> None:
    """Return when somebody waits for a lock, or when the thread has waited for none."""
    eventually(f"{thread.name} waits for a lock or ends", lambda: lock_waiters(db) or not thread.is_alive())
