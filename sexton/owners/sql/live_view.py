"""Read the view in which an owner shows which objects are live: the one that the instance names, never another one."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    TableClause,
    Text,
    and_,
    cast,
    column,
    func,
    null,
    or_,
    select,
    text,
    true,
)
from sqlalchemy import table as table_clause

from sexton.database.engine import Database
from sexton.database.roles import reader_grants
from sexton.database.rows import READ_ROWS, copied, in_list, ranges, within
from sexton.database.tables import Instant
from sexton.marks.live import MOST_KEY, MOST_SHOWN, LiveEntry, Part
from sexton.marks.policy import covering_prefixes
from sexton.operators.registry.store import NO_VIEW, Instance
from sexton.owners.port import OwnerSilent

LIVE_VIEW = "sexton_live"
"""The usual name. A relation of this name that no instance names is never read, but also never overlooked."""
COLUMNS = ("instance", "kind", "id", "vault", "key", "bytes", "as_of")
OPTIONAL_COLUMNS = ("instance", "bytes", "as_of")
ENDS_WITH_SEPARATOR = "[^A-Za-z0-9.-]$"
"""A regular expression for keys of prefixes."""
MOST_ENTRIES = 1_000_000
"""Rows of the suspected losses of a check, which are read into memory."""
TYPES = {"bytes": BigInteger(), "as_of": Instant()}
_COLUMNS_QUERY = (
    "SELECT a.attname, format_type(a.atttypid, NULL), coalesce(l.collisdeterministic, true), current_user, "
    "has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT') "
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
    "LEFT JOIN pg_collation l ON l.oid = a.attcollation "
    "WHERE c.relname = :view AND n.nspname = :schema "
    "AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND c.relpersistence <> 't'"
)
"""The columns of a view, their types, whether equal texts are the same text, the login, and whether it may read it."""
_EXACT_TYPES = ("text", "character varying")
_UNNAMED_QUERY = (
    "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    "WHERE c.relname = :view AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND c.relpersistence <> 't' ORDER BY 1"
)


class LiveView(NamedTuple):
    """The live view of an instance, opened by a connection. ``is_own_row``: the condition that a row is about it."""

    c: Connection
    table: TableClause
    instance: str
    is_own_row: ColumnElement[bool]


def named(db: Database, instance: Instance) -> str | None:
    """Return the name of the view that shows an instance's live objects; None: it has none.

    Raises:
        OwnerSilent: the instance names no view, but the database holds a ``sexton_live``. A view that was overlooked
            would silently mean that nothing checks for live objects. It is not read: any role can create one.
    """
    if instance.live_view:
        return instance.live_view if instance.live_view != NO_VIEW else None
    with db.read() as c:
        unnamed = c.execute(text(_UNNAMED_QUERY), {"view": LIVE_VIEW}).scalars().all()
    if not unnamed:
        return None
    command = f"sexton instance live-view {instance.id}"
    raise OwnerSilent(
        f"the database holds {', '.join(unnamed)}, and instance {instance.id} names no live view; "
        f"if it is the instance's own: {command} {unnamed[0]}; if the instance has none: {command} {NO_VIEW}"
    )


def load(c: Connection, name: str, instance: str) -> LiveView:
    """Return the view of this name, with those of its optional columns that it has, as an instance reads it.

    The columns are read each time, as an owner may change the view while Sexton runs.

    Raises:
        OwnerSilent: there is no such view, the login may not read it, or a column is no exact text.
    """
    schema, _, relation = name.rpartition(".")
    names = {"view": relation, "schema": schema}
    present_columns = {row[0]: row[1:] for row in c.execute(text(_COLUMNS_QUERY), names)}
    if not present_columns:
        raise OwnerSilent(
            f"the live view {name} does not exist; create it, or name another one: sexton instance live-view"
        )
    *_, login, may_read = next(iter(present_columns.values()))
    if not may_read:
        grants = " ".join(reader_grants(name, login))
        raise OwnerSilent(f"login {login} may not read the live view {name}; as the view's owner run: {grants}")
    for column_name in present_columns.keys() & (set(COLUMNS) - TYPES.keys()):
        type_, is_exact, *_ = present_columns[column_name]
        if type_ not in _EXACT_TYPES or not is_exact:
            # A char(8) loses blanks, and a collation may find that two keys are one.
            what = type_ if is_exact else f"{type_} with a nondeterministic collation"
            raise OwnerSilent(f'{name}.{column_name} is {what}; make it text, with a collation such as "C"')
    names_of_columns = [n for n in COLUMNS if n in present_columns or n not in OPTIONAL_COLUMNS]
    columns = [column(n, TYPES.get(n, Text())) for n in names_of_columns]
    table = table_clause(relation, *columns, schema=schema)
    return LiveView(c, table, instance, _is_about(table, instance))


def _is_about(table: TableClause, instance: str) -> ColumnElement[bool]:
    """Return the condition that a row is about the instance: it names the instance, or none."""
    return or_(table.c.instance == instance, table.c.instance.is_(None)) if "instance" in table.c else true()


def parts(view: LiveView, rows: int) -> list[Part]:
    """Return ranges of keys of about ``rows`` rows each."""
    key = view.table.c.key.collate("C")
    return [Part("view", *bounds) for bounds in ranges(view.c, select(key).where(names_an_object(view)), rows)]


def read(view: LiveView, part: Part, *, exist: bool) -> Iterator[Any]:
    """Yield the rows of a part as Arrow record batches, with keys as the owner wrote them.

    ``exist``: the object of a row without an instance must exist, too; otherwise it may be another instance's.
    """
    import pyarrow as pa

    types = (pa.string(), pa.string(), pa.bool_(), pa.bool_(), pa.int64(), pa.string())
    query = _rows(view, exist=exist).where(within(view.table.c.key.collate("C"), part.after, part.until))
    yield from copied(view.c, query, pa.schema(zip(LiveEntry._fields, types, strict=True)))


def ids(view: LiveView, kind: str, after: str, until: str) -> Iterator[str]:
    """Yield the ids of rows of a kind in a range, or the keys of rows of any kind; see ``Owner.record_ids``."""
    columns = view.table.c
    is_key = kind == "key"
    id_ = (columns.key if is_key else columns.id).collate("C")
    is_of_kind = names_an_object(view) if is_key else and_(view.is_own_row, columns.kind == kind)
    shown = beginning(id_, MOST_KEY).label("shown")
    query = select(shown).where(is_of_kind, within(id_, after, until)).distinct().order_by(shown)
    yield from view.c.execution_options(yield_per=READ_ROWS).execute(query).scalars()


def entries_of(view: LiveView, records: Sequence[str], *, exist: bool) -> list[LiveEntry]:
    """Return the rows of these records (``KIND/ID``) now: selected by id, as a key may be written in many forms."""
    wanted_records = set(records)
    ids = sorted({record.partition("/")[2] for record in records})
    query = _rows(view, exist=exist).where(in_list(view.table.c.id, ids))
    entries: list[LiveEntry] = []
    for rows in view.c.execute(query, execution_options={"yield_per": READ_ROWS}).partitions():
        entries += [entry for entry in (LiveEntry(*row) for row in rows) if entry.record in wanted_records]
        if len(entries) > MOST_ENTRIES:
            raise OwnerSilent(f"{view.table.fullname} shows more than {MOST_ENTRIES:,} rows of {len(ids):,} records")
    return entries


def rows_of(
    view: LiveView, names: Sequence[str], instances: Sequence[str], most: int
) -> list[tuple[str | None, str, str, str, str]]:
    """Return (instance, kind, id, vault, key) of live rows that are or cover one of the names, or have it as id.

    ``names``: keys and ids. ``instances``: those that name the view; rows about another one are left out, as only its
    own view counts. ``most``: how many rows are read at most.
    """
    covering_keys = [key for covered in names for key in covering_prefixes(covered)]
    columns = view.table.c
    row_instance = columns.instance if "instance" in columns else null()
    query = select(*map(beginning, (row_instance, columns.kind, columns.id, columns.vault, columns.key)))
    is_own_row = or_(*(_is_about(view.table, instance) for instance in instances))
    query = query.where(is_own_row, or_(columns.key.in_(covering_keys), columns.id.in_(names)))
    rows = view.c.execute(query.limit(most))
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def beginning(column: ColumnElement[Any], characters: int = MOST_SHOWN) -> ColumnElement[str]:
    """Return the beginning of an owner's text: it may be larger than memory."""
    return func.substr(column, 1, characters, type_=Text())


def _rows(view: LiveView, *, exist: bool) -> Select[str, str, bool, bool, int, str]:
    """Return the query of the rows that name an object, with the columns of ``LiveEntry``."""
    columns, key = view.table.c, beginning(view.table.c.key, MOST_KEY)
    # The owner may compute the size as a sum, which is a decimal.
    size = cast(columns.bytes if "bytes" in columns else null(), BigInteger())
    is_prefix = and_(size.is_(None), key.collate("C").regexp_match(ENDS_WITH_SEPARATOR))
    must_exist = true() if exist or "instance" not in columns else columns.instance.is_not(None)
    kind, id_ = (func.coalesce(beginning(text_), "", type_=Text()) for text_ in (columns.kind, columns.id))
    return select(beginning(columns.vault), key, is_prefix, must_exist, size, kind + "/" + id_).where(
        names_an_object(view)
    )


def names_an_object(view: LiveView) -> ColumnElement[bool]:
    """Return the condition that a row about the instance has a vault and a key.

    Other rows name no object; in an anti-join their NULL would match nothing, or everything.
    """
    return and_(view.is_own_row, view.table.c.vault.is_not(None), view.table.c.key.is_not(None))
