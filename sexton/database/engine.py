"""The database, PostgreSQL, opened so that a deciding transaction holds what it promises.

READ COMMITTED: each statement sees what was committed before it began. Synchronous commits: a claim that a fail-over
could roll back would let an undrop of deleted files succeed.
"""

import datetime as dt
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Engine, NullPool, create_engine, func, select, type_coerce
from sqlalchemy.engine import URL, make_url
from sqlalchemy.event import listens_for
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    ProgrammingError,
)
from sqlalchemy.exc import TimeoutError as NoConnection

from sexton.database.tables import TABLES, Instant
from sexton.kernel.errors import WrongUsage

LOCK_SECONDS = 5
"""How long a statement waits for an owner's lock; a round must not hang on a transaction that was left open."""
SEARCH_PATH = "pg_catalog,pg_temp"
"""Sexton names the schema of all that it uses. By default an operator or function in ``public`` that fits the types of
a query better than PostgreSQL's own would run with the rights of Sexton's role."""
RELIED_ON = {
    "application_name": "sexton",
    "synchronous_commit": "on",
    "lock_timeout": str(LOCK_SECONDS * 1000),
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "search_path": SEARCH_PATH,
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
    "row_security": "on",
    "DateStyle": "ISO,MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "transform_null_equals": "off",
    "quote_all_identifiers": "off",
    "array_nulls": "on",
}
"""What Sexton relies on: a database or a role may set each of them otherwise. Every version from 14 on has them."""
OPTIONS = " ".join(f"-c {name}={value}" for name, value in RELIED_ON.items())
"""The settings of Sexton's own sessions, and of those that read owners' live views."""
MOST_MESSAGE = 500
"""Characters of a driver's message that are kept: a query of an owner's view decides how long it is."""
LOCK_NOT_AVAILABLE, QUERY_CANCELED, INSUFFICIENT_PRIVILEGE = "55P03", "57014", "42501"
MISSING = ("42P01", "42703", "3F000")
"""A table, column or schema does not exist."""
AWAY = (DBAPIError, NoConnection)
"""Errors of a database that does not answer or refuses, or of a pool whose connections are all in use."""
NOT_HELD = (DataError,)
"""Of these: a value that the database cannot store."""
BROKEN = (ProgrammingError, IntegrityError)
"""Of these: a wrong schema or statement; a retry does not help."""
_DRIVER = "postgresql+psycopg"
_URL = "postgresql://USER@HOST/DATABASE"
_SNAPSHOT = re.compile(r"[0-9A-Fa-f-]{1,64}")
_INSTANCE = "{instance}"


class Database:
    """An engine, its tables and its clock. Open one per process with ``open``; safe to share between threads."""

    def __init__(self, engine: Engine, live_url: URL | None = None) -> None:
        self.engine = engine
        self.t = TABLES
        self._live_url = live_url
        self._live: dict[str, Database] = {}

    @classmethod
    def open(cls, url: str, connections: int | None = None, live_url: str = "") -> "Database":
        """Open the database at a URL of PostgreSQL; ``BadInput``: it is another one.

        ``connections``: how many may be open at once; None: up to 30. ``live_url``: of the same database, with the
        logins that read live views: in their name {instance} stands for the instance; empty: no live view is read.
        """
        own = _parsed(url, "database_url")
        live = _parsed(live_url, "live_database_url") if live_url else None
        pool = {"pool_size": connections or 10, "max_overflow": 0 if connections else 20, "pool_pre_ping": True}
        return cls(_engine(own, **pool), live)

    def live_login(self, instance: str) -> str:
        """Return the name of the login that reads an instance's live view; empty: there is none."""
        return (self._live_url.username or "").replace(_INSTANCE, instance) if self._live_url else ""

    @property
    def live_password(self) -> str:
        """The password of these logins in the URL; empty: there is none in it."""
        return str(self._live_url.password or "") if self._live_url else ""

    def live(self, instance: str) -> "Database":
        """Return the database for the login that reads an instance's live view. Its sessions only read.

        Each is used once: nothing that a function of the view sets outlives its transaction.
        """
        assert self._live_url is not None
        login = self.live_login(instance)
        if login not in self._live:
            url, only_reads = self._live_url.set(username=login), {"postgresql_readonly": True}
            self._live[login] = Database(_engine(url, poolclass=NullPool, execution_options=only_reads))
        return self._live[login]

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that writes nothing."""
        with self.engine.begin() as connection:
            yield connection

    def limit_statements(self, c: Connection, seconds: float) -> None:
        """Let each further statement of a transaction take this long at most; see ``reached_limit``."""
        c.exec_driver_sql(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")

    @contextmanager
    def look_up(self) -> Iterator[Connection]:
        """Open a connection for single statements, each a transaction of its own: without BEGIN and COMMIT."""
        with self.engine.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that may write; it commits at the end, and rolls back when an exception passes."""
        with self.engine.begin() as connection:
            yield connection

    @contextmanager
    def snapshot(self, name: str = "") -> Iterator[Connection]:
        """Open a transaction that reads one snapshot and writes nothing.

        ``name``: of another transaction's snapshot, as ``share`` returned it, while that one is open; empty: of this
        moment.
        """
        with self.engine.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with connection.begin():
                if name:
                    if not _SNAPSHOT.fullmatch(name):
                        raise ValueError(f"{name!r} is not the name of a snapshot")
                    connection.exec_driver_sql(f"SET TRANSACTION SNAPSHOT '{name}'")
                yield connection

    def share(self, connection: Connection) -> str:
        """Return the name under which other transactions may read this snapshot."""
        # This transaction stays open and idle for as long as others read.
        connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        return str(connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one())

    def now(self, connection: Connection) -> int:
        """Return the database's clock plus the test offset, in milliseconds since 1970: ``sexton_now()``."""
        return connection.execute(_NOW).scalar_one()

    def machine_now(self, connection: Connection) -> int:
        """Return the database's clock without the test offset: a process that runs must not become absent by that."""
        offset_seconds = connection.execute(select(self.t.clock.c.offset_seconds)).scalar_one()
        return self.now(connection) - 1000 * int(offset_seconds)

    def noted_schedule(self) -> str:
        """Return how a worker last saw the schedule in Temporal; empty: none was applied."""
        with self.look_up() as c:
            return str(c.execute(select(self.t.clock.c.schedule)).scalar_one())

    def note_schedule(self, state: str) -> None:
        """Store how the schedule is in Temporal."""
        with self.write() as c:
            c.execute(self.t.clock.update().values(schedule=state))

    def close(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()


def sqlstate(error: Exception) -> str | None:
    """Return PostgreSQL's code of an error of SQLAlchemy or of its driver; None: it has none."""
    return getattr(getattr(error, "orig", error), "sqlstate", None)


def is_locked(error: Exception) -> bool:
    """Tell whether a statement failed because another transaction held its lock too long, so that a retry may help."""
    return sqlstate(error) == LOCK_NOT_AVAILABLE


def reached_limit(error: Exception) -> bool:
    """Return whether a statement was ended because it took longer than its transaction lets it."""
    return sqlstate(error) == QUERY_CANCELED


def now_column() -> ColumnElement[int]:
    """Return ``sexton_now()``, in ms since 1970, as a column of a larger statement."""
    return type_coerce(func.sexton.now(), Instant())


def now_once(later_ms: int = 0) -> ColumnElement[int]:
    """Return ``sexton_now()``, or so many ms later, for a condition of a statement, which then reads the clock once."""
    later = func.sexton.now() + dt.timedelta(milliseconds=later_ms) if later_ms else func.sexton.now()
    return select(type_coerce(later, Instant())).scalar_subquery()


_NOW = select(now_column())  # built once: every transaction reads the clock


def first_line(error: Exception) -> str:
    """Return the beginning of a driver's message, without its SQL and parameters."""
    message = str(getattr(error, "orig", error))[:MOST_MESSAGE].strip()
    return message.splitlines()[0] if message else type(error).__name__


def _parsed(url: str, setting: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as e:
        raise WrongUsage(f"{setting} is not a URL; use {_URL}") from e
    if parsed.drivername not in ("postgresql", _DRIVER):
        raise WrongUsage(f"{setting} begins with {parsed.drivername}:, but Sexton needs PostgreSQL; use {_URL}")
    return parsed


def _engine(url: URL, **options: Any) -> Engine:
    engine = create_engine(
        url.set(drivername=_DRIVER),
        isolation_level="READ COMMITTED",
        hide_parameters=True,
        connect_args={"options": OPTIONS, "connect_timeout": 10},
        **options,
    )
    listens_for(engine, "connect")(_distrust_poolers)
    return engine


def _distrust_poolers(connection: Any, _: object) -> None:
    """Prepare nothing where a pooler drops the settings: it may execute what another client prepared under the name."""
    if connection.info.parameter_status("application_name") != RELIED_ON["application_name"]:
        connection.prepare_threshold = None
