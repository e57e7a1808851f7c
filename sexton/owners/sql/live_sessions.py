"""Open the sessions in which owners' live views are read: with the second login, if the settings name one.

The functions that a view calls run with the rights of the login that reads it. So these sessions only read, and
Sexton's own login never reads a view of an owner while there is a second one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text

from sexton.database.engine import Database
from sexton.owners.port import OwnerSilent

PROVED = "sexton_same_database"
"""Set in the memory of a session that was found to be in Sexton's own database."""
_DATABASE = "SELECT pg_postmaster_start_time()::text, oid::text FROM pg_database WHERE datname = current_database()"


@contextmanager
def reading(db: Database) -> Iterator[Connection]:
    """Open a transaction that reads live views.

    Raises:
        OwnerSilent: the second login leads to another database, such as a replica that lags.
    """
    with db.live.read() as c:
        _prove(db, c)
        yield c


@contextmanager
def reading_at(db: Database, moment: str, own: Connection | None = None) -> Iterator[Connection]:
    """Open a transaction that reads live views in the snapshot of another transaction.

    Args:
        db: the database.
        moment: the name of the snapshot, as ``Database.share`` returned it.
        own: a transaction of Sexton's own login. On SQLite, which has no logins, the views are read in it.

    Raises:
        OwnerSilent: the second login leads to another database.
    """
    if db.live is db and own is not None:
        yield own
        return
    with db.live.snapshot(moment) as live:
        _prove(db, live)
        yield live


def _prove(db: Database, c: Connection) -> None:
    """Raise ``OwnerSilent`` unless a session is in the database of Sexton's own login: a copy may be older."""
    if db.live is db or c.info.get(PROVED):
        return
    with db.read() as own:
        own_database = own.execute(text(_DATABASE)).one()
    if c.execute(text(_DATABASE)).one() != own_database:
        raise OwnerSilent(
            "live_database_url leads to another database or server than database_url, which may be older; "
            "use the same host and database, with another user"
        )
    c.info[PROVED] = True
