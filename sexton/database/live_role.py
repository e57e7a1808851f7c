"""Facts about the second login, which reads the owners' live views: could a function of a view write as it?"""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, text


class LiveRole(NamedTuple):
    """The rights of the role with which live views are read: facts for ``sexton doctor``."""

    role: str
    attributes: Sequence[str]
    """Attributes that give it rights over other roles or data, such as SUPERUSER."""
    is_own: bool
    """Whether it is Sexton's own role, or a member of it."""
    owned: Sequence[str]
    """Schemas, tables and functions of Sexton's that it owns, itself or as a member of their owner."""
    rights: Sequence[str]
    """``PRIVILEGE on OBJECT`` for each right to write or create."""
    read_only: str
    search_path: str


def read_live_role(own: Connection, live: Connection) -> LiveRole:
    """Return the rights of the role of ``live``; ``own``: a connection with Sexton's own login."""
    names, read_only, search_path = live.execute(text(_SESSION)).one()
    parameters = {"roles": list(names)}
    attributes = own.execute(text(_ATTRIBUTES), parameters).scalars().all()
    return LiveRole(
        role=names[0],
        attributes=attributes,
        is_own=own.execute(text(_IS_OWN), parameters).scalar_one(),
        owned=own.execute(text(_OWNED), parameters).scalars().all(),
        rights=own.execute(text(_RIGHTS), parameters).scalars().all(),
        read_only=read_only,
        search_path=search_path,
    )


# The role that logged in counts beside the present one: a function may return to it.
_SESSION = """
SELECT ARRAY[session_user::text, current_user::text], current_setting('default_transaction_read_only'),
    current_setting('search_path')
"""
_ROLES = "WITH roles AS (SELECT * FROM pg_roles WHERE rolname = ANY(CAST(:roles AS text[])))"
_ATTRIBUTES = f"""{_ROLES}
SELECT DISTINCT a.name FROM roles, LATERAL (VALUES ('SUPERUSER', rolsuper), ('CREATEROLE', rolcreaterole),
    ('CREATEDB', rolcreatedb), ('REPLICATION', rolreplication), ('BYPASSRLS', rolbypassrls)) a (name, is_set)
WHERE a.is_set ORDER BY 1
"""
_IS_OWN = f"{_ROLES} SELECT bool_or(pg_has_role(oid, current_user, 'MEMBER')) FROM roles"
_OBJECTS = f"""{_ROLES}, schemas AS (
    SELECT oid, nspname, nspowner FROM pg_namespace WHERE nspname ~ '^sexton(_[a-z0-9_]+)?$'
), relations AS (
    SELECT c.oid, n.nspname || '.' || c.relname AS name, c.relowner
    FROM pg_class c JOIN schemas n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
)
"""
_OWNED = f"""{_OBJECTS}
SELECT DISTINCT o.name FROM roles r, (
    SELECT 'schema ' || nspname AS name, nspowner AS owner FROM schemas
    UNION ALL SELECT name, relowner FROM relations
    UNION ALL SELECT n.nspname || '.' || p.proname, p.proowner FROM pg_proc p JOIN schemas n ON n.oid = p.pronamespace
) o WHERE pg_has_role(r.oid, o.owner, 'MEMBER') ORDER BY 1
"""
_RIGHTS = f"""{_OBJECTS}
SELECT DISTINCT g.privilege || ' on ' || g.name FROM (
    SELECT p.privilege, t.name FROM roles r, relations t,
        unnest(ARRAY['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER']) p (privilege)
    WHERE has_table_privilege(r.oid, t.oid, p.privilege)
        OR (p.privilege IN ('INSERT', 'UPDATE') AND has_any_column_privilege(r.oid, t.oid, p.privilege))
    UNION ALL
    SELECT 'CREATE', 'schema ' || n.nspname FROM roles r, schemas n WHERE has_schema_privilege(r.oid, n.oid, 'CREATE')
    UNION ALL
    SELECT 'CREATE', 'database ' || current_database() FROM roles r
    WHERE has_database_privilege(r.oid, current_database(), 'CREATE')
) g ORDER BY 1
"""
