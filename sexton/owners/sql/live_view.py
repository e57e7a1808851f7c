"""Find and read the view ``sexton_live``, in which an owner shows which objects are live."""

from collections.abc import Iterator, Sequence
from typing import Any

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
    literal,
    null,
    or_,
    select,
    text,
    true,
)
from sqlalchemy import table as table_clause

from sexton.database.engine import Database
from sexton.database.ranges import READ_ROWS, ranges, within
from sexton.database.rows import in_list
from sexton.database.tables import Instant
from sexton.marks.live import LiveEntry, Part, names_prefix
from sexton.marks.policy import covering_prefixes
from sexton.owners.port import OwnerSilent

LIVE_VIEW = "sexton_live"
COLUMNS = ("instance", "kind", "id", "vault", "key", "bytes", "as_of")
OPTIONAL_COLUMNS = ("instance", "bytes", "as_of")
TYPES = {"bytes": BigInteger(), "as_of": Instant()}
_COLUMNS_QUERY = {
    "postgresql": (
        "SELECT n.nspname, a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
        "WHERE c.relname = :view AND c.relkind IN ('r', 'v', 'm', 'f', 'p') AND c.relpersistence <> 't'"
    ),
    "sqlite": "SELECT NULL, name FROM pragma_table_info(:view)",
}


def find(db: Database, c: Connection) -> TableClause | None:
    """Return the view, with those of its optional columns that it has; None: no schema holds one.

    The lookup is repeated each time, as an owner may add the view while Sexton runs. It covers every schema: a view
    that was overlooked would silently mean that nothing checks for live objects.

    Raises:
        OwnerSilent: several schemas hold such a view.
    """
    columns_by_schema: dict[str | None, set[str]] = {}
    for schema, name in c.execute(text(_COLUMNS_QUERY[db.dialect]), {"view": LIVE_VIEW}):
        columns_by_schema.setdefault(schema, set()).add(name)
    if not columns_by_schema:
        return None
    if len(columns_by_schema) > 1:
        schemas = ", ".join(map(str, columns_by_schema))
        raise OwnerSilent(f"several schemas hold a view {LIVE_VIEW}: {schemas}; keep one")
    [(schema, present_columns)] = columns_by_schema.items()
    names = [n for n in COLUMNS if n in present_columns or n not in OPTIONAL_COLUMNS]
    columns = [column(n, TYPES.get(n, Text())) for n in names]
    return table_clause(LIVE_VIEW, *columns, schema=schema)


def is_about(view: TableClause, instance: str) -> ColumnElement[bool]:
    """Return the condition that a row is about the instance: it names the instance, or none."""
    return or_(view.c.instance == instance, view.c.instance.is_(None)) if "instance" in view.c else true()


def parts(db: Database, c: Connection, view: TableClause, instance: str, rows: int) -> list[Part]:
    """Return ranges of keys of about ``rows`` rows each."""
    keys = select(_key(db, view)).where(_names_an_object(view, instance))
    return [Part("view", *bounds) for bounds in ranges(c, keys, rows)]


def read(db: Database, c: Connection, view: TableClause, instance: str, part: Part) -> Iterator[list[LiveEntry]]:
    """Yield the rows of a part in pages, with keys as the owner wrote them."""
    query = _rows(view, instance).where(within(_key(db, view), part.after, part.until))
    for rows in c.execution_options(yield_per=READ_ROWS).execute(query).partitions():
        yield [_entry(row) for row in rows]


def entries_of(
    db: Database, c: Connection, view: TableClause, instance: str, records: Sequence[str]
) -> list[LiveEntry]:
    """Return the rows of these records (``KIND/ID``) now: selected by id, as a key may be written in many forms."""
    wanted_records = set(records)
    ids = sorted({record.partition("/")[2] for record in records})
    query = _rows(view, instance).where(in_list(db, view.c.id, ids))  # type: ignore[arg-type]
    entries = [_entry(row) for row in c.execute(query)]
    return [entry for entry in entries if entry.record in wanted_records]


def rows_of(db: Database, names: Sequence[str]) -> list[tuple[str | None, str, str, str, str]]:
    """Return (instance, kind, id, vault, key) of live rows that are or cover one of the names, or have it as id."""
    covering_keys = [key for name in names for key in covering_prefixes(name)]
    with db.read() as c:
        view = find(db, c)
        if view is None:
            return []
        row_instance = view.c.instance if "instance" in view.c else null()
        query = select(row_instance, view.c.kind, view.c.id, view.c.vault, view.c.key)
        rows = c.execute(query.where(or_(view.c.key.in_(covering_keys), view.c.id.in_(names))).limit(100))
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def _rows(view: TableClause, instance: str) -> Select[tuple[str, str, str, str, int | None, str | None]]:
    # The owner may compute the size as a sum, which is a decimal.
    size = cast(view.c.bytes if "bytes" in view.c else null(), BigInteger())
    row_instance = view.c.instance if "instance" in view.c else literal(instance)
    columns = (view.c.vault, view.c.key, view.c.kind, view.c.id, size, row_instance)
    return select(*columns).where(_names_an_object(view, instance))


def _names_an_object(view: TableClause, instance: str) -> ColumnElement[bool]:
    # A row without vault or key names no object; in an anti-join its NULL would match nothing, or everything.
    return and_(is_about(view, instance), view.c.vault.is_not(None), view.c.key.is_not(None))


def _key(db: Database, view: TableClause) -> ColumnElement[str]:
    key: ColumnElement[str] = view.c.key
    return key.collate("C") if db.dialect == "postgresql" else key


def _entry(row: Any) -> LiveEntry:
    vault, key, kind, id_, size, instance = row
    if not key:
        raise OwnerSilent(
            f"{LIVE_VIEW} shows an empty key ({kind}/{id_}), which could mean the whole vault or nothing; "
            "remove the row or name the object"
        )
    # A row without an instance may be another instance's, so its object need not exist in this one.
    return LiveEntry(vault, key, names_prefix(key, size), instance is not None, size, f"{kind}/{id_}")
