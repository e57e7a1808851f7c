"""Select rows of ``protection``, store items, and compute the digests that identify a registration."""

import hashlib
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Boolean, Column, Connection, Select, Text, literal, select
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import as_rows
from sexton.protection.model import Item


def protection_columns(db: Database) -> list[Column[Any]]:
    """Return the columns of a protection without its filter, which may have megabytes."""
    return [column for column in db.t.protection.c if column.name != "filter"]


def select_protections(db: Database) -> Select[Any]:
    """Select protections without their filters."""
    return select(*protection_columns(db))


def insert_items(db: Database, c: Connection, instance: str, registration_id: int, items: Iterable[Item]) -> None:
    """Store the items of a registration; items that it has already are left out."""
    item = db.t.protection_item
    rows = as_rows((i._asdict() for i in items), vault=Text(), key=Text(), prefix=Boolean())
    columns = {"instance": literal(instance), "vault": rows.c.vault, "key": rows.c.key}
    columns |= {"prefix": rows.c.prefix, "protection": literal(registration_id)}
    c.execute(upsert(item).from_select([*columns], select(*columns.values())).on_conflict_do_nothing())


def digest(items: Iterable[Item], filter_: bytes = b"") -> str:
    """Return the digest of items and a filter, which does not depend on the order of the items."""
    hash_ = hashlib.sha256(filter_)
    for item in sorted(items):
        hash_.update(f"{item.vault}\0{item.key}\0{item.prefix:d}\n".encode())
    return hash_.hexdigest()
