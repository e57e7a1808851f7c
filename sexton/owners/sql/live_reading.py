"""Read an owner's live view with the login of its instance, within limits of time; without that login nothing is read.

The functions that a view calls run with the rights of the login that reads it, which sees nothing but what the owner
sees. An owner decides what its view computes, and may lock it. So every statement and every transaction has a time
limit, after which the owner counts as silent.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from sexton.database.engine import Database, first_line, is_locked, reached_limit, sqlstate
from sexton.database.roles import login_faults, login_statements
from sexton.owners.port import OwnerSilent
from sexton.owners.sql import live_view
from sexton.owners.sql.live_view import LiveView

STATEMENT_SECONDS = 20
"""Longest statement that reads a view: below the heartbeat timeout."""
GRACE_SECONDS = 5
"""How long after that the session waits, if the server does not end the statement, and is then closed."""
LOOK_SECONDS = 300
"""How long a transaction may begin further statements."""
_DATABASE = "SELECT pg_postmaster_start_time()::text, oid::text FROM pg_database WHERE datname = current_database()"


class OwnerSlow(OwnerSilent):
    """The live view did not answer in time."""


@contextmanager
def reading(
    db: Database,
    instance: str,
    view: str,
    *,
    moment: str | None = None,
    seconds: int | None = None,
    look_seconds: int | None = None,
) -> Iterator[LiveView]:
    """Open an instance's live view (``SCHEMA.VIEW``) in a transaction that reads it.

    ``moment``: the name of the snapshot in which it is read, as ``Database.share`` returned it; empty: a snapshot of
    this moment; None: each statement sees the newest rows. ``seconds``: how long a statement may take; None:
    ``STATEMENT_SECONDS``. ``look_seconds``: how long the transaction may begin further statements; None:
    ``LOOK_SECONDS``.

    Raises:
        OwnerSilent: there is no login for the view, it could do more than read the view, or it leads to another
            database, such as a replica that lags; the view fails, is locked, or did not answer in time.
    """
    login = db.live_login(instance)
    if not login:
        raise OwnerSilent(
            f"{instance} names the live view {view}, and there is no login of its own to read it; set "
            f"live_database_url = postgresql://{{instance}}_reader@HOST/NAME, then run: {_way_out(instance, view)}"
        )
    live, is_open = db.live(instance), False
    try:
        with live.read() if moment is None else live.snapshot(moment) as c:
            is_open = True
            with _limited(c, seconds or STATEMENT_SECONDS, look_seconds or LOOK_SECONDS):
                _verify(db, c, login)
                yield live_view.load(c, view, instance)
    except SQLAlchemyError as e:  # without its cause, whose text the owner's view decides: it can be very long
        if is_open or sqlstate(e):
            raise OwnerSilent(f"the live view cannot be read: {first_line(e)}") from None
        why = f"login {login} of live_database_url cannot log in ({first_line(e)})"
        raise OwnerSilent(f"{why}; run: {_way_out(instance, view, login)}") from None


def _way_out(instance: str, view: str, login: str = "") -> str:
    sql = " ".join(login_statements(login or f"{instance}_reader", view))
    return f"sexton instance live-view {instance} {view}, or as an administrator of the database: {sql}"


def _verify(db: Database, c: Connection, login: str) -> None:
    """Raise ``OwnerSilent`` if a login could do more than read, or is in another database, which may be older."""
    with db.read() as own:
        own_database, faults = own.execute(text(_DATABASE)).one(), login_faults(own, login)
    if faults:
        raise OwnerSilent(
            f"login {login} {', '.join(faults)}, and code of a live view has the rights of its login; let "
            "live_database_url name one that may only read the view (docs/integration.md)"
        )
    if c.execute(text(_DATABASE)).one() != own_database:
        raise OwnerSilent(
            "live_database_url leads to another database or server than database_url, which may be older; "
            "use the same host and database, with another user"
        )
    user = str(c.execute(text("SELECT session_user")).scalar_one())
    if user != login:  # PostgreSQL cuts names after 63 bytes
        raise OwnerSilent(f"live_database_url logs in as {user} in place of {login}; choose a shorter name")


@contextmanager
def _limited(c: Connection, seconds: int, look_seconds: int) -> Iterator[None]:
    """Limit the time of each statement and of the transaction.

    PostgreSQL does not end every computation at its limit, and a function may catch that end. So this side hangs up.
    """
    until, watch = time.monotonic() + look_seconds, _Watch(c.connection.driver_connection, seconds + GRACE_SECONDS)

    def begin(*_: Any) -> None:
        if time.monotonic() > until:
            raise OwnerSlow(f"the live view was read for {look_seconds:,} s without an end; make it faster")
        watch.begin()

    event.listen(c, "before_cursor_execute", begin)
    try:
        c.exec_driver_sql(f"SET LOCAL statement_timeout = {seconds * 1000}")
        yield
    except DBAPIError as e:
        if watch.hung_up:
            limit = f"{seconds + GRACE_SECONDS:,} s"
            raise OwnerSlow(f"the live view gave no answer within {limit}, so the session was closed") from None
        if reached_limit(e):
            raise OwnerSlow(f"the live view did not answer within {seconds:,} s ({first_line(e)})") from None
        if is_locked(e):
            raise OwnerSlow(f"the live view is locked by a transaction of its owner ({first_line(e)})") from None
        raise
    finally:
        watch.end()
        event.remove(c, "before_cursor_execute", begin)


class _Watch:
    """Hangs up if a statement has not ended after so many seconds, so that no thread waits for longer."""

    def __init__(self, session: Any, seconds: float) -> None:
        self._session, self._seconds = session, seconds
        self._timer: threading.Timer | None = None
        self.hung_up = False

    def begin(self) -> None:
        self.end()
        self._timer = threading.Timer(self._seconds, self._hang_up)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        """Stop; from here on the session may be closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()

    def _hang_up(self) -> None:
        self.hung_up = True
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._session.fileno())) as connected:
            connected.shutdown(socket.SHUT_RDWR)
