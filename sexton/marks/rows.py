"""Between rows of ``mark`` and values."""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import FromClause, Text

from sexton.db.engine import Database
from sexton.db.rows import as_rows
from sexton.marks.model import DueMark, Ref


def due_mark(row: Any) -> DueMark:
    """Return the row as a value; keys that are no list of text make it unresolvable, not an error."""
    keys = row._mapping["keys"]  # Row.keys is a method
    if keys is not None and not all(isinstance(k, str) for k in keys):
        keys = [""]  # refused as a key, so the mark is quarantined
    return DueMark(
        kind=row.kind,
        id=row.id,
        ages_from=row.ages_from,
        vault=row.vault,
        prefix=row.prefix,
        keys=None if keys is None else tuple(keys),
        bytes=row.bytes,
    )


def given_refs(db: Database, refs: Iterable[Ref]) -> FromClause:
    """Return refs as rows with ``kind`` and ``id``."""
    return as_rows(db, ({"kind": r.kind, "id": r.id} for r in refs), kind=Text(), id=Text())
