"""Create or check Sexton's schema: Alembic migrations, and the deployment id in the clock row."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError

from sexton.database.engine import INSUFFICIENT_PRIVILEGE, MISSING, Database, first_line, is_locked, sqlstate
from sexton.database.roles import SEES_ALL_MARKS
from sexton.database.tables import TABLES
from sexton.kernel.errors import BadInput, SextonError

VERSIONS = ("0001",)
"""All versions of the schema, the newest last: one for each module in ``migrations/versions``."""
HEAD = VERSIONS[-1]
WORKS_WITH = "0001"
"""The oldest version whose programs may use a database at ``HEAD``. A migration that only adds to the schema leaves it,
so that programs of both versions run side by side during an upgrade."""
SCHEMA_LOCK = 0x5E70
"""Advisory lock key: two ``sexton init`` at once must not both create the schema."""
_LOCK_HOLDER = """
SELECT l.pid, a.usename FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.classid = 0 AND l.objid = :k AND l.objsubid = 1 AND l.granted
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
LIMIT 1
"""
_FOREIGN_OWNER = (
    "SELECT pg_get_userbyid(nspowner) FROM pg_namespace "
    "WHERE nspname = :schema AND pg_get_userbyid(nspowner) <> current_user"
)
_CLOCK = TABLES.clock.fullname
_VERSION = "SELECT version_num FROM sexton.alembic_version"
_ONE_ROW = f"FROM (VALUES (1)) AS one_row LEFT JOIN {_CLOCK} ON true"
_FACTS = f"""
SELECT ({_VERSION}) AS version, works_with, deployment, ({SEES_ALL_MARKS}) AS sees_all_marks
{_ONE_ROW}
"""


class SchemaError(SextonError):
    """The schema is missing, of another version than this Sexton's, or belongs to another deployment."""


def init(database_url: str, deployment: str) -> None:
    """Create or upgrade the schema and write the deployment id. Safe to repeat.

    A newer schema that this Sexton may use is left as it is, so that a rollback succeeds.

    Raises:
        SchemaError: the database belongs to another deployment, has a schema of an unknown version, or cannot be
            reached; or another role than this connection's created it.
    """
    from alembic import command  # 0.2 s, which every other command would take too

    database = Database.open(database_url)
    with _answering(database):
        _take_schema(database)
        with database.read() as c:
            version, works_with, _ = _stored(c)
        if not _is_newer(version, works_with):
            command.upgrade(_config(attributes={"database": database}), "head")
        with database.write() as c:
            # This waits for another init at the same moment; the first one names the deployment.
            c.execute(
                text(f"INSERT INTO {_CLOCK} (one, deployment) VALUES (true, :d) ON CONFLICT DO NOTHING"),
                {"d": deployment},
            )
            # A newer init may have upgraded the schema meanwhile: only it knows which programs may use that.
            c.execute(
                text(f"UPDATE {_CLOCK} SET works_with = :v WHERE works_with <> :v AND ({_VERSION}) = :head"),
                {"v": WORKS_WITH, "head": HEAD},
            )
            stored_deployment = c.execute(text(f"SELECT deployment FROM {_CLOCK}")).scalar_one()
            if stored_deployment != deployment:
                raise _foreign(stored_deployment, deployment)


def take(database_url: str) -> None:
    """Create the empty schema if it does not exist, so that from now on nothing in it is another role's.

    Raises:
        SchemaError: the schema belongs to another role, or the database cannot be reached.
    """
    database = Database.open(database_url)
    with _answering(database):
        _take_schema(database)


def lock_out_others(c: Connection, key: int) -> None:
    """Take an advisory lock until the transaction ends.

    Any role of the database can take the same lock, so nothing but the creation of schemas waits for one.

    Raises:
        SchemaError: another session holds the lock for seconds.
    """
    try:
        with c.begin_nested():
            c.execute(text("SELECT pg_advisory_xact_lock(:k)"), {"k": key})
    except OperationalError as e:
        if not is_locked(e):
            raise
        holder = c.execute(text(_LOCK_HOLDER), {"k": key}).one_or_none()
        name = f"session {holder.pid} of role {holder.usename}" if holder else "another session"
        end = f"SELECT pg_terminate_backend({holder.pid})" if holder else "run the command again"
        raise SchemaError(
            f"{name} holds the lock under which schemas are created; if it is no other sexton init, end it: {end}"
        ) from e


def refuse_foreign(c: Connection, name: str) -> None:
    """Raise ``SchemaError`` if a PostgreSQL schema belongs to another role than this connection's.

    That role could have put functions, views or triggers into it, which would run with the rights of Sexton's role.
    """
    owner = c.execute(text(_FOREIGN_OWNER), {"schema": name}).scalar()
    if owner is not None:
        raise SchemaError(
            f"schema {name} belongs to role {owner}, not to the role of this connection; nothing was written. If "
            f"{owner} is Sexton's own role, log in as {owner}; otherwise find out who created the schema, and drop it"
        )


def belongs_to(database_url: str) -> str:
    """Return the deployment whose schema is in this database, empty where the database has no schema."""
    database = Database.open(database_url)
    try:
        with database.read() as c:
            return _stored(c)[2] or ""
    except OperationalError as e:
        raise _unreachable(e) from e
    finally:
        database.close()


def _unreachable(error: Exception) -> SchemaError:
    return SchemaError(
        f"cannot reach the database: {first_line(error)}; check that it runs, and that SEXTON_DATABASE_URL is right"
    )


def check(database: Database, deployment: str) -> None:
    """Raise ``SchemaError`` unless this Sexton may use the schema, and it belongs to this deployment."""
    try:
        with database.read() as c:
            facts = c.execute(text(_FACTS)).one()
    except OperationalError as e:
        raise _unreachable(e) from e
    except ProgrammingError as e:
        if sqlstate(e) == INSUFFICIENT_PRIVILEGE:
            raise SchemaError(
                f"{first_line(e)}: {database.engine.url.username or 'this login'} is not Sexton's role; correct the "
                "user in SEXTON_DATABASE_URL (its grants: docs/integration.md, 'Your own migrations')"
            ) from e
        if sqlstate(e) not in MISSING:
            raise
        raise SchemaError(f"the schema is missing, this Sexton needs {HEAD}; run: sexton init") from e
    if not _is_newer(facts.version, facts.works_with) and facts.version != HEAD:
        current = f"at version {facts.version}" if facts.version else "missing"
        raise SchemaError(f"the schema is {current}, this Sexton needs {HEAD}; run: sexton init")
    if not facts.sees_all_marks:
        raise SchemaError(
            "row-level security hides marks from the role of this connection; create the two policies that "
            "docs/integration.md shows under 'Your own migrations'"
        )
    if facts.deployment is None:
        raise SchemaError("the schema has no deployment id yet; run: sexton init")
    if facts.deployment != deployment:
        raise _foreign(facts.deployment, deployment)


def status(database_url: str, deployment: str) -> str:
    """Return one line about the schema for ``sexton doctor``; raise ``SchemaError`` when it is not usable."""
    database = Database.open(database_url)
    try:
        check(database, deployment)
        with database.read() as c:
            version, *_ = _stored(c)
            offset = c.execute(text(f"SELECT offset_seconds FROM {_CLOCK}")).scalar_one()
        moved = f", clock moved forward by {offset} s" if offset else ""
        return f"postgresql, schema {version}{moved}"
    finally:
        database.close()


def sql(deployment: str = "") -> str:
    """Return the whole schema as SQL, for teams with their own migrations: ``sexton init --print-sql``.

    With a deployment id, the SQL also writes the row with this id; without one, ``sexton init`` writes it later.
    """
    from alembic import command

    buffer = io.StringIO()
    command.upgrade(_config(output_buffer=buffer), "head", sql=True)
    if deployment:
        buffer.write(f"INSERT INTO {_CLOCK} (one, deployment) VALUES (true, '{deployment}');\n")
    return buffer.getvalue()


def move_clock(database: Database, seconds: int) -> None:
    """Move ``sexton_now()`` forward; only in a deployment whose id begins with ``demo-`` or ``test-``."""
    if seconds < 0:
        raise BadInput("the clock only moves forward")
    try:
        with database.write() as c:
            c.execute(text(f"UPDATE {_CLOCK} SET offset_seconds = offset_seconds + :s"), {"s": seconds})
    except IntegrityError as e:
        raise BadInput("the clock moves only in a deployment whose id begins with demo- or test-") from e


@contextmanager
def _answering(database: Database) -> Iterator[None]:
    """Translate the database's refusals into ``SchemaError``, and close it at the end."""
    try:
        yield
    except OperationalError as e:
        raise _unreachable(e) from e
    except DBAPIError as e:
        url, grant = database.engine.url, ""
        if sqlstate(e) == INSUFFICIENT_PRIVILEGE:
            grant = f"; as an administrator: GRANT CREATE ON DATABASE {url.database} TO {url.username}"
        raise SchemaError(f"the database refuses the schema: {first_line(e)}{grant}") from e
    finally:
        database.close()


def _take_schema(database: Database) -> None:
    """Create schema ``sexton`` unless it exists, and refuse another role's, before anything in it is read."""
    with database.write() as c:
        lock_out_others(c, SCHEMA_LOCK)
        refuse_foreign(c, "sexton")
        c.execute(text("CREATE SCHEMA IF NOT EXISTS sexton"))
        refuse_foreign(c, "sexton")  # it may have been created in between


def _foreign(stored: str | None, configured: str) -> SchemaError:
    return SchemaError(
        f"the database belongs to deployment {stored}, this process to {configured}; a copied database must not delete "
        "the files of its original: correct SEXTON_DEPLOYMENT, or start from an empty schema"
    )


def _is_newer(version: str | None, works_with: str | None) -> bool:
    """Return whether a schema is newer than this Sexton, and may be used by it all the same.

    Raises:
        SchemaError: no migration of this Sexton leads to or from the schema's version, and it must not be used.
    """
    is_known = version is None or version in VERSIONS
    if not is_known and works_with not in VERSIONS:
        raise SchemaError(
            f"the schema is at version {version}, which this Sexton ({HEAD}) does not know and cannot upgrade; "
            "use the Sexton that created it, or a newer one, and check SEXTON_DATABASE_URL"
        )
    return not is_known


def _config(**options: Any) -> Any:
    """Return Alembic's configuration."""
    from alembic.config import Config

    logging.getLogger("alembic").setLevel(logging.WARNING)  # it logs each time
    config = Config(**options)
    config.set_main_option("script_location", "sexton.database:migrations")
    return config


def _stored(c: Connection) -> tuple[str | None, str | None, str | None]:
    """Return the version of the schema, the oldest one whose programs may use it, and its deployment; None: not stored.

    The version and the clock are created in one transaction.
    """
    if not inspect(c).has_table("alembic_version", "sexton"):
        return None, None, None
    row = c.execute(text(f"SELECT ({_VERSION}), works_with, deployment {_ONE_ROW}")).one()
    return row[0], row[1], row[2]
