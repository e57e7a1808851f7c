"""The view ``sexton_live``, in which an owner shows what is live: found anew each time, and read for the check."""

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
from sexton.marks.live import LiveEntry, Part
from sexton.owners.port import OwnerSilent
from sexton.storage.policy import ID_CHARACTERS

LIVE_VIEW = "sexton_live"
COLUMNS = ("instance", "kind", "id", "vault", "key", "bytes")
OPTIONAL = ("instance", "bytes")
_COLUMNS = {
    "postgresql": (
        "SELECT n.nspname, a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped "
        "WHERE c.relname = :view AND c.relkind IN ('r', 'v', 'm', 'f', 'p')"
    ),
    "sqlite": "SELECT NULL, name FROM pragma_table_info(:view)",
}


def find(db: Database, c: Connection) -> TableClause | None:
    """Return the view, with its optional columns only where it has them, or None where no schema holds one.

    Looked up anew each time (an owner may add it while we run), and in every schema: one that is there and not
    seen would mean no check, silently.
    """
    found: dict[str | None, set[str]] = {}
    for schema, name in c.execute(text(_COLUMNS[db.dialect]), {"view": LIVE_VIEW}):
        found.setdefault(schema, set()).add(name)
    if not found:
        return None
    if len(found) > 1:
        raise OwnerSilent(f"there are several {LIVE_VIEW}: in {', '.join(map(str, found))}; keep one")
    [(schema, present)] = found.items()
    names = [n for n in COLUMNS if n in present or n not in OPTIONAL]
    columns = [column(n, BigInteger() if n == "bytes" else Text()) for n in names]
    return table_clause(LIVE_VIEW, *columns, schema=schema)


def ours(view: TableClause, instance: str) -> ColumnElement[bool]:
    """Return the condition that a row is about the instance."""
    return or_(view.c.instance == instance, view.c.instance.is_(None)) if "instance" in view.c else true()


def parts(db: Database, c: Connection, view: TableClause, instance: str, rows: int) -> list[Part]:
    """Return ranges of keys of about so many rows."""
    return [Part("view", *ends) for ends in ranges(c, select(_key(db, view)).where(_told(view, instance)), rows)]


def read(db: Database, c: Connection, view: TableClause, instance: str, part: Part) -> Iterator[list[LiveEntry]]:
    """Yield the rows of a part, in pages, as they are written there."""
    chosen = _rows(view, instance).where(within(_key(db, view), part.after, part.until))
    for rows in c.execution_options(yield_per=READ_ROWS).execute(chosen).partitions():
        yield [_known(row) for row in rows]


def named(db: Database, c: Connection, view: TableClause, instance: str, records: Sequence[str]) -> list[LiveEntry]:
    """Return the rows of these records (``KIND/ID``) now: by their ids, as a key may be written in many ways."""
    ids = sorted({record.partition("/")[2] for record in records})
    chosen = _rows(view, instance).where(in_list(db, view.c.id, ids))  # type: ignore[arg-type]
    return [known for row in c.execute(chosen) if (known := _known(row)).record in set(records)]


def _rows(view: TableClause, instance: str) -> Select[tuple[str, str, str, str, int | None, str | None]]:
    size = cast(view.c.bytes if "bytes" in view.c else null(), BigInteger())  # an owner's may be a sum, hence a decimal
    whose = view.c.instance if "instance" in view.c else literal(instance)
    columns = (view.c.vault, view.c.key, view.c.kind, view.c.id, size, whose)
    return select(*columns).where(_told(view, instance))


def _told(view: TableClause, instance: str) -> ColumnElement[bool]:
    # A row without vault or key says nothing of any object; an anti-join would let NULL match nothing, or all.
    return and_(ours(view, instance), view.c.vault.is_not(None), view.c.key.is_not(None))


def _key(db: Database, view: TableClause) -> ColumnElement[str]:
    key: ColumnElement[str] = view.c.key
    return key.collate("C") if db.dialect == "postgresql" else key


def _known(row: Any) -> LiveEntry:
    vault, key, kind, id_, size, whose = row
    if not key:
        raise OwnerSilent(f"{LIVE_VIEW} shows an empty key ({kind}/{id_}): that names the whole vault, or nothing")
    # What has a size is an object, whatever it ends with. What nobody's instance is named for need not be in this one.
    prefix = size is None and key[-1] not in ID_CHARACTERS
    return LiveEntry(vault, key, prefix, whose is not None, size, f"{kind}/{id_}")
