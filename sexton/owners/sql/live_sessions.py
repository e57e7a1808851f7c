"""Open the sessions in which owners' live views are read: with the second login, if the settings name one.

The functions that a view calls run with the rights of the login that reads it. So these sessions only read, and
Sexton's own login never reads a view of an owner while there is a second one; there may be one for each instance. An
owner decides what its view computes, and may lock it: every statement and every transaction has a time limit, after
which the owner counts as silent.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, event, text
from sqlalchemy.exc import OperationalError

from sexton.database.engine import LOCK_NOT_AVAILABLE, Database, first_line, reached_limit
from sexton.database.live_engine import NoAnswer
from sexton.database.session import LOCK_SECONDS
from sexton.owners.port import OwnerSilent

PROVED = "sexton_same_database"
"""Set in the memory of a session that was found to be in Sexton's own database."""
_DATABASE = "SELECT pg_postmaster_start_time()::text, oid::text FROM pg_database WHERE datname = current_database()"
_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = :pid AND usename = current_user "
    "AND backend_start < clock_timestamp() - make_interval(secs => :seconds)"
)
"""Ends a process that began more than so many seconds ago: numbers of processes are used again."""

STATEMENT_SECONDS = 20
"""Longest statement that reads a view: below the heartbeat timeout."""
GRACE_SECONDS = 5
"""How long after that the session waits, if the server does not end the statement, and is then closed."""
LOOK_SECONDS = 300
"""How long a transaction may begin further statements."""


class OwnerSlow(OwnerSilent):
    """The live view did not answer in time."""


@contextmanager
def reading(
    db: Database, instance: str, seconds: int | None = None, look_seconds: int | None = None
) -> Iterator[Connection]:
    """Open a transaction that reads an instance's live view.

    Args:
        db: the database.
        instance: the instance.
        seconds: how long a statement may take; None: ``STATEMENT_SECONDS``.
        look_seconds: how long the transaction may begin further statements; None: ``LOOK_SECONDS``.

    Raises:
        OwnerSilent: the second login leads to another database, such as a replica that lags; the view did not answer
            in time, or is locked.
    """
    _require_idle(db, instance)
    with (
        db.live(instance).read() as c,
        _limited(db, instance, c, seconds or STATEMENT_SECONDS, look_seconds or LOOK_SECONDS),
    ):
        _prove(db, c)
        yield c


@contextmanager
def reading_at(db: Database, instance: str, moment: str, *, seconds: int | None = None) -> Iterator[Connection]:
    """Open a transaction that reads an instance's live view in the snapshot of another transaction.

    Args:
        db: the database.
        instance: the instance.
        moment: the name of the snapshot, as ``Database.share`` returned it.
        seconds: how long a statement may take, and the transaction may begin further ones; None:
            ``STATEMENT_SECONDS``.

    Raises:
        OwnerSilent: as ``reading``.
    """
    _require_idle(db, instance)
    with (
        db.live(instance).snapshot(moment) as live,
        _limited(db, instance, live, seconds or STATEMENT_SECONDS, seconds or STATEMENT_SECONDS),
    ):
        _prove(db, live)
        yield live


@contextmanager
def _limited(db: Database, instance: str, c: Connection, seconds: int, look_seconds: int) -> Iterator[None]:
    """Limit the time of statements, of waits for locks, and of the transaction.

    PostgreSQL does not end every computation at its limit. The session is then closed.
    """
    until = time.monotonic() + look_seconds

    def in_time(*_: Any) -> None:
        if time.monotonic() > until:
            raise OwnerSlow(f"the live view was read for {look_seconds:,} s without an end; make it faster")

    db.limit_statements(c, seconds)
    c.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_SECONDS * 1000}")
    session: Any = c.connection.driver_connection
    session.wait_seconds = seconds + GRACE_SECONDS
    event.listen(c, "before_cursor_execute", in_time)
    try:
        yield
    except OperationalError as e:
        if isinstance(e.orig, NoAnswer):
            db.computing[instance] = (e.orig.process, time.monotonic())
            raise OwnerSlow(f"the live view gave {first_line(e)}") from e
        if reached_limit(e):
            raise OwnerSlow(f"the live view did not answer within {seconds:,} s ({first_line(e)})") from e
        if getattr(e.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE:
            raise OwnerSlow(f"the live view is locked by a transaction of its owner ({first_line(e)})") from e
        raise
    finally:
        event.remove(c, "before_cursor_execute", in_time)


def _require_idle(db: Database, instance: str) -> None:
    """Raise ``OwnerSlow`` while PostgreSQL computes an earlier query of the view: such queries must not pile up.

    Its process is asked to end, as it may also be in code that an owner put there, which ignores every time limit.
    """
    if instance not in db.computing:
        return
    process, since = db.computing[instance]
    with db.live(instance).read() as c:
        computes = (
            c.execute(text(_TERMINATE), {"pid": process, "seconds": time.monotonic() - since}).first() is not None
        )
    if computes:
        raise OwnerSlow(
            f"process {process} of PostgreSQL still computes an earlier query of the live view, and no time limit "
            "ends it; make the view simpler"
        )
    db.computing.pop(instance, None)


def _prove(db: Database, c: Connection) -> None:
    """Raise ``OwnerSilent`` unless a session is in the database of Sexton's own login: a copy may be older."""
    if c.info.get(PROVED):
        return
    with db.read() as own:
        own_database = own.execute(text(_DATABASE)).one()
    if c.execute(text(_DATABASE)).one() != own_database:
        raise OwnerSilent(
            "live_database_url leads to another database or server than database_url, which may be older; "
            "use the same host and database, with another user"
        )
    c.info[PROVED] = True
