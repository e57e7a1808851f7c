"""See that somebody waits for a lock: the reason to wait, in place of a pause after which nothing has happened."""

from sqlalchemy import text

from sexton.database.engine import Database
from tests.support.eventually import eventually

WAITING = text(
    "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    " AND backend_type = 'client backend'"
)


def wait_for_lock_waiter(db: Database, sessions: int = 1) -> None:
    """Return when so many sessions of a database wait for locks."""

    def waiting() -> bool:
        with db.read() as c:
            return len(c.execute(WAITING).all()) >= sessions

    eventually(f"{sessions} sessions wait for a lock", waiting)
