"""Refuse to read a live view that would run an owner's code: it would run with the rights of whoever reads the view.

A function of a view could read other owners' views, end their sessions, lift the limits of its transaction, send away
what it sees, and hide that the view is a copy. So a view may call functions of PostgreSQL and of extensions only, and
of these only such whose result depends on their arguments, or on the moment of the transaction.
"""

from sqlalchemy import Connection, TableClause

from sexton.database.engine import Database
from sexton.owners.port import OwnerSilent

_TREES = """
WITH RECURSIVE used (oid) AS (
    SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = %(view)s AND n.nspname = %(schema)s
    UNION
    SELECT r.id[1]::oid FROM used JOIN pg_class c ON c.oid = used.oid AND c.relkind = 'v'
        JOIN pg_rewrite w ON w.ev_class = c.oid, regexp_matches(w.ev_action::text, ' :relid (\\d+)', 'g') r (id)
), trees (class, id, tree) AS (
    SELECT 'pg_rewrite'::regclass, w.oid, w.ev_action::text
    FROM used JOIN pg_class c ON c.oid = used.oid AND c.relkind = 'v' JOIN pg_rewrite w ON w.ev_class = c.oid
    UNION ALL
    SELECT 'pg_policy'::regclass, p.oid, concat(p.polqual::text, p.polwithcheck::text)
    FROM used JOIN pg_policy p ON p.polrelid = used.oid
)
"""
"""The parsed definitions of a view, of the views under it, and of row security. A materialized view runs nothing."""
_DEFINITION = {
    "postgresql": f"{_TREES} SELECT md5(string_agg(tree, ' ' ORDER BY class, id)) FROM trees",
    "sqlite": "PRAGMA schema_version",
}
_CALLED = f"""
{_TREES}, functions AS (
    SELECT f.id[1]::oid AS oid FROM trees,
        regexp_matches(tree, ' :(?:funcid|opfuncid|aggfnoid|winfnoid|tsmhandler) (\\d+)', 'g') f (id)
    UNION
    SELECT o.oprcode::oid FROM trees, regexp_matches(tree, ' :opno (\\d+)', 'g') f (id)
        JOIN pg_operator o ON o.oid = f.id[1]::oid
), called (name, is_harmless) AS (
    SELECT p.oid::regprocedure::text, r.rolsuper AND (p.provolatile = 'i'
        OR (p.provolatile = 's' AND n.nspname = 'pg_catalog' AND p.proname !~ '^(pg|lo)_|xml'))
    FROM functions f JOIN pg_proc p ON p.oid = f.oid JOIN pg_roles r ON r.oid = p.proowner
        JOIN pg_namespace n ON n.oid = p.pronamespace
    UNION ALL
    SELECT format_type(t.oid, NULL), r.rolsuper
    FROM trees JOIN pg_depend d ON d.classid = trees.class AND d.objid = trees.id AND d.refclassid = 'pg_type'::regclass
        JOIN pg_type t ON t.oid = d.refobjid JOIN pg_roles r ON r.oid = t.typowner
    WHERE t.typtype IN ('c', 'd')
)
SELECT name FROM called WHERE NOT is_harmless ORDER BY name LIMIT 1
"""
_KIND = """
SELECT c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = %(view)s AND n.nspname = %(schema)s
"""
_LOCKABLE = ("r", "p", "v")
"""Kinds of relations that LOCK TABLE takes. A materialized view and a foreign table run no code of an owner."""


def require_plain(db: Database, c: Connection, schema: str | None, view: str) -> None:
    """Raise ``OwnerSilent`` if reading the view would run code of an owner; otherwise none can be put into it any more.

    The view, and those under it, stay locked against changes until the transaction ends. Types count where a value is
    converted to them: their checks and parts may call functions. Row security counts, too.
    """
    if db.dialect != "postgresql":
        return
    names = {"view": view, "schema": schema}
    if c.exec_driver_sql(_KIND, names).scalar_one_or_none() in _LOCKABLE:
        quote = c.dialect.identifier_preparer.quote_identifier
        c.exec_driver_sql(f"LOCK TABLE {quote(schema or '')}.{quote(view)} IN ACCESS SHARE MODE".replace("%", "%%"))
    called = c.exec_driver_sql(_CALLED, names).scalar_one_or_none()
    if called is not None:
        raise OwnerSilent(
            f"the live view {schema}.{view} calls {called}, and Sexton runs no code of an owner; use immutable "
            "functions of PostgreSQL, or store the value in a column (docs/integration.md)"
        )


def definition(db: Database, c: Connection, view: TableClause) -> str:
    """Return a text that changes when the view, or one under it, is defined anew."""
    names = {"view": view.name, "schema": view.schema} if db.dialect == "postgresql" else None
    return str(c.exec_driver_sql(_DEFINITION[db.dialect], names).scalar_one())
