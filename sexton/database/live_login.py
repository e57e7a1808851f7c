"""The login that reads an instance's live view, and nothing else: create it, and name what it could do beyond that.

A view runs code of its owner with the rights of the login that reads it. So each instance has a login of its own, which
sees what that owner sees anyway.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, text

from sexton.database.engine import BROKEN, Database
from sexton.database.roles import reader_grants

MAX_CONNECTIONS = 40
"""Sessions of one login: a view that computes without an end occupies no more of PostgreSQL's, which ends none."""
AS_OF_VIEW = "{}_as_of"
"""The name of the view of one row beside a live view, which stands for ``{}``: as of when a copy is true."""
_EXISTS = text("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :login)")
_FAULTS = text(
    r"""
SELECT f.fault FROM pg_roles r, LATERAL (VALUES
    (r.rolsuper, 'is a superuser'),
    (r.rolcreaterole, 'may create roles'),
    (r.rolreplication, 'may replicate'),
    (r.rolbypassrls, 'bypasses row security'),
    (EXISTS (SELECT FROM pg_auth_members m WHERE m.member = r.oid), 'is a member of other roles'),
    (EXISTS (SELECT FROM pg_namespace n WHERE n.nspname ~ '^sexton(_[a-z0-9_]+)?$'
        AND has_schema_privilege(r.oid, n.oid, 'USAGE, CREATE')), 'may use the schema of Sexton')
) f (applies, fault) WHERE r.rolname = :login AND f.applies
"""
)


def statements(login: str, view: str) -> list[str]:
    """Return the SQL that creates the login of a live view (``SCHEMA.VIEW``), which an administrator runs."""
    name = login.replace('"', '""')
    return [f'CREATE ROLE "{name}" LOGIN CONNECTION LIMIT {MAX_CONNECTIONS};', *reader_grants(view, login)]


def make_login(db: Database, instance: str, view: str) -> None:
    """Create the login that reads an instance's live view, and grant it the view, as far as Sexton's login may do so.

    Reading the view names what is still missing.
    """
    login = db.live_login(instance)
    if not login:
        return
    with db.read() as c:
        exists = c.execute(_EXISTS, {"login": login}).scalar_one()
        create_password = ""
        if db.live_password:  # as its hash: statements are logged
            session: Any = c.connection.driver_connection
            password, name = db.live_password.encode(), login.encode()
            hashed = session.pgconn.encrypt_password(password, name, b"scram-sha-256").decode()
            create_password = f" PASSWORD '{hashed}'"
    create, *grants = statements(login, view)
    grants += reader_grants(AS_OF_VIEW.format(view), login)[1:]
    for statement in grants if exists else [create.replace(";", create_password), *grants]:
        with suppress(*BROKEN), db.write() as c:
            c.execution_options(no_parameters=True).exec_driver_sql(statement)


def login_faults(own: Connection, login: str) -> Sequence[str]:
    """Return what a login could do beyond reading a view; ``own``: a connection with Sexton's own login."""
    return own.execute(_FAULTS, {"login": login}).scalars().all()
