"""One database, PostgreSQL or SQLite, opened so that a deciding transaction promises the same on both.

PostgreSQL: READ COMMITTED (each statement sees what was committed before it began) and synchronous commits (a claim
that a fail-over could roll back would let an undrop of deleted files succeed). SQLite: WAL, synchronous=FULL, and
``write()`` begins IMMEDIATE, so nothing is read before the write lock is held.
"""

import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    literal_column,
    select,
    type_coerce,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as NoConnection

from sexton.database.live_engine import open_live
from sexton.database.session import MOST_MESSAGE, OPTIONS
from sexton.database.tables import Instant, Tables, build
from sexton.kernel.errors import BadInput

SQLITE_BUSY_SECONDS = 10
LOCK_NOT_AVAILABLE = "55P03"
QUERY_CANCELED = "57014"
"""A statement reached its time limit."""
AWAY = (DBAPIError, NoConnection)
"""Errors of a database that does not answer or refuses, or of a pool whose connections are all in use."""
NOT_HELD = (DataError,)
"""Of these: a value that the database cannot store."""
BROKEN = (ProgrammingError, IntegrityError)
"""Of these: a wrong schema or statement; a retry does not help."""
_BEGIN = "sexton_begin"
_SNAPSHOT = re.compile(r"[0-9A-Fa-f-]{1,64}")
_INSTANCE = "{instance}"


class Database:
    """An engine, its tables and its clock. Open one per process with ``open``; safe to share between threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.dialect: str = engine.dialect.name
        self.t: Tables = build(self.dialect)
        self._live_url: URL | None = None
        self._live: dict[str, Database] = {}
        self._live_lock = threading.Lock()
        self.computing: dict[str, tuple[int, float]] = {}
        """Instances whose live view PostgreSQL computes on, though no session waits for it.

        The process of each, and when its session was closed (``time.monotonic``).
        """
        self.has_live_login = False
        """Whether live views are read with another login than Sexton's own."""
        self.has_live_login_each = False
        """Whether each instance's live view is read with a login of its own."""

    @classmethod
    def open(cls, url: str, connections: int | None = None, live_url: str = "") -> "Database":
        """Open the database at a SQLAlchemy URL.

        Args:
            url: of SQLite or PostgreSQL.
            connections: how many may be open at once; None: up to 30.
            live_url: of the same PostgreSQL database, with the login that reads live views, in whose name {instance}
                stands for the instance; empty: that of ``url``.

        Raises:
            BadInput: the URL is neither SQLite nor PostgreSQL.
        """
        database = cls(_engine(url, connections))
        if database.dialect == "postgresql":
            database._live_url, database.has_live_login = _parsed(live_url or url), bool(live_url)
            database.has_live_login_each = _INSTANCE in (database._live_url.username or "")
        elif live_url:
            raise BadInput("live_database_url is set, but database_url is SQLite, which has no logins; remove it")
        return database

    def live(self, instance: str) -> "Database":
        """Return sessions for the live view of an instance, whose functions run with the rights of their login.

        They only read, and nothing that a function sets outlives its transaction. On SQLite, which has no logins, they
        are the database itself.
        """
        if self._live_url is None:
            return self
        login = (self._live_url.username or "").replace(_INSTANCE, instance)
        with self._live_lock:
            if login not in self._live:
                self._live[login] = Database(open_live(self._live_url.set(username=login)))
            return self._live[login]

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that writes nothing."""
        with self.engine.connect() as connection, connection.begin():
            yield connection

    def limit_statements(self, c: Connection, seconds: float) -> None:
        """Let each further statement of a transaction take this long at most (PostgreSQL); see ``reached_limit``."""
        if self.dialect == "postgresql":
            c.exec_driver_sql(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")

    @contextmanager
    def look_up(self) -> Iterator[Connection]:
        """Open a connection for single statements, each a transaction of its own: without BEGIN and COMMIT."""
        with self.engine.connect() as connection:
            if self.dialect == "postgresql":
                connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write; it commits at the end, and rolls back when an exception passes."""
        with self.engine.connect() as connection:
            connection = connection.execution_options(**{_BEGIN: "IMMEDIATE"})
            with connection.begin():
                yield connection

    @contextmanager
    def snapshot(self, name: str = "") -> Iterator[Connection]:
        """Open a transaction that reads one snapshot and writes nothing.

        Args:
            name: of another transaction's snapshot, as ``share`` returned it, while that transaction is open; empty:
                a snapshot of this moment.
        """
        if self.dialect == "sqlite":  # every transaction of SQLite reads one snapshot, which no other can share
            with self.read() as connection:
                yield connection
            return
        with self.engine.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                if name:
                    if not _SNAPSHOT.fullmatch(name):
                        raise ValueError(f"{name!r} is not the name of a snapshot")
                    connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{name}'")
                yield connection

    def share(self, connection: Connection) -> str:
        """Return the name under which other transactions may read this snapshot; empty on SQLite, where none can."""
        if self.dialect == "sqlite":
            return ""
        # This transaction stays open and idle for as long as others read.
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        return str(connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())

    def now(self, connection: Connection) -> int:
        """Return the database's clock plus the test offset, in milliseconds since 1970: ``sexton_now()``."""
        # Every transaction reads the clock, so both statements are built once.
        if self.dialect == "postgresql":
            now: int = connection.execute(_POSTGRESQL_NOW).scalar_one()  # type: ignore[assignment]
        else:
            now = connection.exec_driver_sql(_SQLITE_SELECT_NOW).scalar_one()
        return now

    def machine_now(self, connection: Connection) -> int:
        """Return the database's clock without the test offset: a process that runs must not become absent by that."""
        offset_seconds = connection.execute(select(self.t.clock.c.offset_seconds)).scalar_one()
        return self.now(connection) - 1000 * int(offset_seconds)

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()
        with self._live_lock:
            for live in self._live.values():
                live.close()


def is_locked(error: OperationalError) -> bool:
    """Tell whether a statement failed because another transaction held its lock too long, so that a retry may help."""
    return getattr(error.orig, "sqlstate", None) == LOCK_NOT_AVAILABLE or "database is locked" in str(error.orig)


def is_denied(error: Exception) -> bool:
    """Tell whether PostgreSQL refused a statement because the login lacks a right."""
    return getattr(getattr(error, "orig", error), "sqlstate", None) == "42501"


_SQLITE_CLOCK = "CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)"
SQLITE_NOW = f"(SELECT {_SQLITE_CLOCK} + offset_seconds * 1000 FROM sexton_clock)"
"""``sexton_now()`` on SQLite, where a function cannot read a table: an expression to paste into SQL."""
_SQLITE_SELECT_NOW = f"SELECT {SQLITE_NOW}"
_POSTGRESQL_NOW = select(func.sexton.now(type_=Instant()))


def now_column(dialect: str) -> ColumnElement[int]:
    """Return ``sexton_now()``, in ms since 1970, as a column of a larger statement."""
    if dialect == "postgresql":
        return type_coerce(func.sexton.now(type_=Instant()), Instant())
    return literal_column(SQLITE_NOW, Instant())


def reached_limit(error: DBAPIError) -> bool:
    """Return whether a statement was ended because it took longer than its transaction lets it."""
    return getattr(error.orig, "sqlstate", None) == QUERY_CANCELED


def first_line(error: Exception) -> str:
    """Return the beginning of a driver's message, without its SQL and parameters."""
    message = str(getattr(error, "orig", error))[:MOST_MESSAGE].strip()
    return message.splitlines()[0] if message else type(error).__name__


def _parsed(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError as e:
        raise BadInput("database_url is not a URL; use sqlite:///FILE or postgresql://USER@HOST/DATABASE") from e


def _engine(url: str, connections: int | None) -> Engine:
    parsed = _parsed(url)
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            isolation_level="READ COMMITTED",
            pool_size=connections or 10,
            max_overflow=0 if connections else 20,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args={"options": OPTIONS, "connect_timeout": 10},
        )
    if backend == "sqlite":
        return _sqlite(parsed)
    raise BadInput(f"database_url is for {backend}; use SQLite or PostgreSQL")


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch the file to WAL mode; retry while other connections block it, because SQLite does not wait for them."""
    until = time.monotonic() + SQLITE_BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchone()
        except sqlite3.OperationalError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise BadInput("an in-memory SQLite database loses its marks; use a file: sqlite:///FILE")
    engine = create_engine(url, connect_args={"timeout": SQLITE_BUSY_SECONDS}, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def configure(dbapi_connection: Any, _record: Any) -> None:
        # Transactions that pysqlite opens begin only at the first write: a check before it would run outside of them.
        dbapi_connection.isolation_level = None
        for pragma in ("synchronous=FULL", "foreign_keys=ON"):
            dbapi_connection.execute(f"PRAGMA {pragma}")
        _write_ahead(dbapi_connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(_BEGIN, 'DEFERRED')}")

    return engine
