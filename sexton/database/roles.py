"""PostgreSQL roles: owners' grants, logins that read live views, and what others could change in Sexton's schema.

A live view runs code of its owner with the rights of the login that reads it. So each instance has a login of its own,
which sees what that owner sees anyway.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from sexton.database.engine import BROKEN, Database
from sexton.database.guard import UnknownInstance
from sexton.database.tables import METADATA
from sexton.kernel.errors import BadInput, WrongUsage

_FUNCTIONS = (
    "sexton.now(), sexton.granted_instances(), sexton.verify_granted(text), "
    "sexton.prepare(text, text, text[], text, text[], interval), "
    "sexton.prepare(text, text, text[], text, text[], interval, text, text[]), "
    "sexton.commit(text, text[]), sexton.undrop(text, text, text[]), sexton.reference(text, text[]), "
    "sexton.admit(text, text, text[], text[], interval), sexton.end_commit(text, text)"
)


class SchemaAccess(NamedTuple):
    """Who could act as Sexton's role, or change its schema: facts for ``sexton doctor``."""

    role: str
    is_superuser: bool
    schema_owner: str
    search_path: str
    foreign_objects: Sequence[str]
    """Tables and functions of the schema that belong to another role than the schema."""
    writers: Sequence[str]
    """``PRIVILEGE on OBJECT to ROLE``, each of which lets another role run code or write where Sexton trusts."""
    owner_roles: Sequence[str]
    """Roles to which instances are granted."""
    lost_grants: Sequence[tuple[str, str]]
    """Instance and role of each grant to a role that was dropped since, even if another one has its name now."""


def grants(role: str) -> str:
    """Return the SQL that lets one PostgreSQL role use the contract, for no instance yet."""
    check_name(role)
    tables = [t for t in METADATA.tables.values() if t.info["owners_may"]]
    return "\n".join(
        (
            f'GRANT USAGE ON SCHEMA sexton TO "{role}";',
            *(f'GRANT {t.info["owners_may"]} ON {t.fullname} TO "{role}";' for t in tables),
            f'GRANT EXECUTE ON FUNCTION {_FUNCTIONS} TO "{role}";',
        )
    )


def reader_grants(view: str, role: str) -> list[str]:
    """Return the SQL that lets one PostgreSQL role read a live view, named as ``SCHEMA.VIEW``; its owner runs it."""
    schema, _, name = view.partition(".")
    return [f'GRANT USAGE ON SCHEMA "{schema}" TO "{role}";', f'GRANT SELECT ON "{schema}"."{name}" TO "{role}";']


def grant(database_url: str, role: str) -> None:
    """Let a PostgreSQL role use the contract; ``grant_instance`` says for which instances.

    Raises:
        BadInput: the role does not exist.
    """
    database = Database.open(database_url)
    try:
        with database.write() as c:
            if not c.execute(text("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = :r)"), {"r": role}).scalar():
                raise BadInput(f"{_no_role(role)}, then repeat: sexton init --grant-to {role}")
            for statement in grants(role).splitlines():
                c.exec_driver_sql(statement)
    finally:
        database.close()


def _no_role(role: str) -> str:
    return f"there is no role {role}; create it first"


def grant_instance(db: Database, instance: str, role: str) -> None:
    """Let a role read, make, commit and undrop the marks of an instance. Repeating it changes nothing.

    Raises:
        BadInput: the role does not exist, may not use the contract or is a superuser.
        UnknownInstance: the instance is not registered.
    """
    check_name(role)
    may_use = (
        "SELECT has_schema_privilege(oid, 'sexton', 'USAGE') AS contract, rolsuper AND oid <> "
        "(SELECT nspowner FROM pg_namespace WHERE nspname = 'sexton') AS super FROM pg_roles WHERE rolname = :r"
    )
    insertion = (
        "INSERT INTO sexton.instance_role (instance, role, role_oid) SELECT CAST(:i AS text), rolname, oid "
        "FROM pg_roles WHERE rolname = :r ON CONFLICT (instance, role) DO UPDATE SET role_oid = excluded.role_oid"
    )
    try:
        with db.write() as c:
            if (found := c.execute(text(may_use), {"r": role}).one_or_none()) is None:
                raise BadInput(_no_role(role))
            if found.super:
                raise BadInput(f"role {role} is a superuser, whose sessions have no instance; grant an ordinary login")
            if not found.contract:
                raise BadInput(f"role {role} may not use schema sexton; first run: sexton init --grant-to {role}")
            c.execute(text(insertion), {"i": instance, "r": role})
    except IntegrityError as e:
        raise UnknownInstance(instance) from e


def revoke_instance(db: Database, instance: str, role: str) -> None:
    """Take an instance from a role; ``BadInput``: the instance is not granted to the role."""
    deletion = "DELETE FROM sexton.instance_role WHERE instance = :i AND role = :r"
    with db.write() as c:
        if c.execute(text(deletion), {"i": instance, "r": role}).rowcount == 0:
            raise BadInput(f"instance {instance} is not granted to role {role}; see: sexton instance list")


def granted_roles(db: Database) -> Mapping[str, Sequence[str]]:
    """Return instance → roles to which it is granted."""
    with db.read() as c:
        query = "SELECT instance, array_agg(role ORDER BY role) FROM sexton.instance_role GROUP BY instance"
        return {row[0]: row[1] for row in c.execute(text(query))}


def read_access(c: Connection) -> SchemaAccess:
    """Return who could act as Sexton's role, or change its schemas."""
    who = c.execute(text(_WHO)).one()
    foreign = c.execute(text(_FOREIGN_OBJECTS)).scalars().all()
    writers = c.execute(text(_WRITERS)).scalars().all()
    owner_roles = c.execute(text("SELECT DISTINCT role FROM sexton.instance_role ORDER BY 1")).scalars().all()
    lost_grants = [(row[0], row[1]) for row in c.execute(text(_LOST_GRANTS))]
    return SchemaAccess(who[0], who[1], who[2], who[3], foreign, writers, owner_roles, lost_grants)


def check_name(role: str) -> None:
    """Raise ``BadInput`` unless this may be the name of a role."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$-]{0,62}", role):
        raise WrongUsage(f"{role!r} is not a role name; use letters, digits, '_', '$' and '-', at most 63")


def login_statements(login: str, view: str) -> list[str]:
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
    create, *grants = login_statements(login, view)
    grants += reader_grants(AS_OF_VIEW.format(view), login)[1:]
    for statement in grants if exists else [create.replace(";", create_password), *grants]:
        with suppress(*BROKEN), db.write() as c:
            c.execution_options(no_parameters=True).exec_driver_sql(statement)


def login_faults(own: Connection, login: str) -> Sequence[str]:
    """Return what a login could do beyond reading a view; ``own``: a connection with Sexton's own login."""
    return own.execute(_FAULTS, {"login": login}).scalars().all()


MAX_CONNECTIONS = 40
"""Sessions of one login: a view that computes without an end occupies no more of PostgreSQL's, which ends none."""
AS_OF_VIEW = "{}_as_of"
"""The name of the view of one row beside a live view, which stands for ``{}``: as of when a copy is true."""
OWN_ROLE = """CREATE ROLE sexton_svc LOGIN;
DO $$ DECLARE target text; BEGIN
EXECUTE format('GRANT CREATE ON DATABASE %I TO sexton_svc', current_database());
FOR target IN SELECT 'SCHEMA sexton' UNION ALL SELECT 'TABLE ' || oid::regclass FROM pg_class
    WHERE relnamespace = 'sexton'::regnamespace AND relkind IN ('r', 'p', 'v')
    UNION ALL SELECT 'ROUTINE ' || oid::regprocedure FROM pg_proc WHERE pronamespace = 'sexton'::regnamespace
LOOP EXECUTE 'ALTER ' || target || ' OWNER TO sexton_svc'; END LOOP; END $$;"""
"""The SQL by which a superuser gives Sexton, and its schema, a role of their own."""
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
SEES_ALL_MARKS = """
SELECT bool_and(NOT row_security_active(t.oid) OR EXISTS (
    SELECT FROM pg_policy p, unnest(p.polroles) r
    WHERE p.polrelid = t.oid AND p.polpermissive AND p.polcmd = '*' AND r <> 0 AND pg_has_role(r, 'USAGE')
        AND pg_get_expr(p.polqual, p.polrelid) = 'true' AND p.polwithcheck IS NULL))
FROM (VALUES ('sexton.mark'::regclass::oid), ('sexton.mark_history'::regclass::oid)) AS t (oid)
"""
"""Whether row-level security hides no mark from this connection's role."""
_WHO = """
SELECT current_user, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
    (SELECT pg_get_userbyid(nspowner) FROM pg_namespace WHERE nspname = 'sexton'), current_setting('search_path')
"""
_LOST_GRANTS = """
SELECT instance, role FROM sexton.instance_role g
WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = g.role AND r.oid = g.role_oid) ORDER BY 1, 2
"""
_OBJECTS = """
WITH schemas AS (
    SELECT oid, nspname, nspowner, nspacl FROM pg_namespace WHERE nspname ~ '^sexton(_[a-z0-9_]+)?$'
), objects AS (
    SELECT n.nspname || '.' || c.relname AS name, c.relowner AS owner, n.nspowner, c.relacl AS acl
    FROM pg_class c JOIN schemas n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
    UNION ALL
    SELECT n.nspname || '.' || p.proname, p.proowner, n.nspowner, p.proacl
    FROM pg_proc p JOIN schemas n ON n.oid = p.pronamespace
)
"""
_FOREIGN_OBJECTS = f"{_OBJECTS} SELECT DISTINCT name FROM objects WHERE owner <> nspowner ORDER BY 1"
# Other roles of Sexton's own may write every table. But only the owner may have CREATE and TRIGGER: what they add runs
# with the rights of the role that uses the table.
_WRITERS = f"""{_OBJECTS}
SELECT a.privilege_type || ' on ' || g.name || ' to ' || CASE a.grantee WHEN 0 THEN 'PUBLIC'
    ELSE pg_get_userbyid(a.grantee) END
FROM (
    SELECT 'schema ' || nspname AS name, nspowner AS owner, nspacl AS acl FROM schemas
    UNION ALL SELECT name, owner, acl FROM objects
) g, aclexplode(g.acl) a
WHERE a.grantee <> g.owner AND (
    a.privilege_type IN ('CREATE', 'TRIGGER')
    OR (a.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE') AND CASE a.grantee WHEN 0 THEN true
        ELSE EXISTS (SELECT FROM sexton.instance_role o JOIN pg_roles r ON r.rolname = o.role
            WHERE pg_has_role(r.oid, a.grantee, 'MEMBER') AND NOT r.rolsuper) END)
    OR (a.privilege_type = 'EXECUTE' AND a.grantee = 0))
ORDER BY 1
"""
