"""Say as of when the live view is true: a copy of it that is no longer refreshed shows current files as garbage.

A plain view over the owner's own tables is true at any moment. A table, a materialized view, or a view over one is as
old as its last refresh, so it must say how old it is: in a column ``as_of``, or in a view of one row
with this column beside it, ``sexton_live_as_of`` for a view ``sexton_live``. Instants are ms since 1970.
"""

from sqlalchemy import column, func, select, text, true
from sqlalchemy import table as table_clause

from sexton.database.roles import AS_OF_VIEW
from sexton.database.tables import Instant
from sexton.owners.port import OwnerSilent
from sexton.owners.sql.live_view import LiveView

AS_OF = "as_of"
AHEAD_MS = 60_000
"""How far the owner's clock may be ahead of the database's."""
_USED = """
WITH RECURSIVE used (oid, relkind, is_view_itself) AS (
    SELECT c.oid, c.relkind, true FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = :view AND n.nspname = :schema
    UNION
    SELECT c.oid, c.relkind, false FROM used
    JOIN pg_rewrite w ON w.ev_class = used.oid
    JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid AND d.refclassid = 'pg_class'::regclass
    JOIN pg_class c ON c.oid = d.refobjid AND c.oid <> used.oid
    WHERE used.relkind = 'v'
)
"""
"""A view, and what it reads."""
_IS_COPY = (
    f"{_USED} SELECT EXISTS (SELECT FROM used WHERE relkind IN ('m', 'f') OR (is_view_itself AND relkind <> 'v'))"
)
_DEFINITION = (
    f"{_USED} SELECT md5(string_agg(concat(used.oid, w.ev_action), ' ' ORDER BY used.oid)) "
    "FROM used LEFT JOIN pg_rewrite w ON w.ev_class = used.oid AND w.ev_type = '1'"
)
_TYPE_OF_AS_OF = (
    "SELECT format_type(a.atttypid, NULL) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "WHERE c.relname = :view AND n.nspname = :schema AND a.attname = 'as_of'"
)
INSTANT_TYPE = "timestamp with time zone"


def read(view: LiveView) -> int | None:
    """Return as of when the live view is true; None: at any moment.

    Raises:
        OwnerSilent: the view is a copy that does not say how old it is.
    """
    c, table = view.c, view.table
    as_of_view = AS_OF_VIEW.format(table.name)
    for name, is_meant in ((as_of_view, true()), (table.name, view.is_own_row)):
        names = {"view": name, "schema": table.schema}
        type_ = c.execute(text(_TYPE_OF_AS_OF), names).scalar_one_or_none()
        if type_ is None:
            continue
        if type_ != INSTANT_TYPE:
            raise OwnerSilent(f"{name}.{AS_OF} is {type_}; make it {INSTANT_TYPE}")
        source = table if name == table.name else table_clause(name, schema=table.schema)
        as_of_oldest_row = func.min(column(AS_OF, Instant()), type_=Instant())
        as_of = c.execute(select(as_of_oldest_row).select_from(source).where(is_meant)).scalar()
        if not isinstance(as_of, int):
            raise OwnerSilent(f"{name} does not say as of when it is true: {AS_OF} is no instant, or there is no row")
        return as_of
    if c.execute(text(_IS_COPY), {"view": table.name, "schema": table.schema}).scalar_one():
        raise OwnerSilent(
            f"{table.name} is a copy (a table, a materialized view, or a view over one) and does not say how old it "
            f"is; add a column {AS_OF}, or a view {as_of_view} with one (docs/integration.md)"
        )
    return None


def definition(view: LiveView) -> str:
    """Return a text that changes when the view, or one under it, is defined otherwise."""
    names = {"view": view.table.name, "schema": view.table.schema}
    return str(view.c.execute(text(_DEFINITION), names).scalar_one())


def precedes(as_of: int | None, made_at: int) -> bool:
    """Return whether the live view was last true before a mark was made, so that it says nothing about the mark. Pure.

    A file that is newer than a copy may be marked by mistake, and the copy does not show it yet.
    """
    return as_of is not None and as_of < made_at


def require_recent(as_of: int | None, now: int, max_age_seconds: int) -> None:
    """Raise ``OwnerSilent`` unless the live view was true not longer ago than so many seconds. Pure."""
    if as_of is None:
        return
    if as_of > now + AHEAD_MS:
        raise OwnerSilent("the live view says that it is true as of a moment that is still to come; correct its clock")
    age = (now - as_of) // 1000
    if age > max_age_seconds:
        raise OwnerSilent(
            f"the live view was last true {age:,} s ago, and live_max_age_seconds is {max_age_seconds:,}; refresh it"
        )
