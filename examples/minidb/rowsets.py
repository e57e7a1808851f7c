"""Find, insert and mark rowsets, always in the transaction of the caller."""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, insert, select, text

from examples.minidb.schema import file, rowset, table


class MiniDBError(Exception):
    """An operation is refused; nothing has changed."""


class Size(NamedTuple):
    """A number of files and bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Written:
    """A rowset whose files are in object storage, and that no metadata names yet."""

    id: str
    vault: str
    files: tuple[tuple[str, bytes], ...]

    @property
    def size(self) -> Size:
        """Return how much was written."""
        return Size(len(self.files), sum(len(content) for _, content in self.files))


def find_table(c: Connection, instance: str, name: str, *, dropped: bool = False, lock: bool = False) -> Row[Any]:
    """Return a table's row; ``lock`` it if the transaction changes the rowsets of the table."""
    query = select(table).where(table.c.instance == instance, table.c.name == name, table.c.dropped == dropped)
    row = c.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        raise MiniDBError(f"there is no {'dropped ' if dropped else ''}table {name}")
    return row


def last_version(c: Connection, table_id: str) -> int:
    """Return the newest version of a table, 0 if it is empty."""
    return c.execute(select(func.max(rowset.c.last_version)).where(rowset.c.table_id == table_id)).scalar() or 0


def insert_rowset(c: Connection, table_id: str, written: Written, first: int, last: int) -> None:
    """Make a written rowset part of a table, as the versions from first to last."""
    columns = {"id": written.id, "table_id": table_id, "vault": written.vault, **written.size._asdict()}
    c.execute(insert(rowset).values(first_version=first, last_version=last, **columns))
    files = [
        {"key": key, "rowset_id": written.id, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for key, content in written.files
    ]
    c.execute(insert(file), files)


def mark_rowsets(c: Connection, kind: str, table_id: str, first: int, last: int) -> int:
    """Mark the rowsets of some versions as garbage: one mark each, with all its keys and its bytes. Return how many.

    One statement, so nothing leaves the database, even for a table of a million files. It sets the columns that an
    owner may set; Sexton sets state and time. Exact keys (at most 1,000 for one mark) spare Sexton a listing, and a
    plan shows ``bytes``. The parent is the table, so that an operator can hold all of it by its id.
    ``contract.mark`` does the same from Python, row by row.

    Args:
        c: the transaction that un-references them: an earlier one could delete files of readers; after a crash before
            a later one no record would name the files.
        kind: ``compacted`` or ``dropped``; its retention decides how long the files stay.
        table_id: the table of the rowsets.
        first: the lowest first version.
        last: the highest last version.
    """
    return c.execute(
        text("""
            INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes, parent_kind, parent_id, owner_txn)
            SELECT t.instance, :kind, r.id, r.vault,
                   (SELECT jsonb_agg(f.key) FROM minidb_file f WHERE f.rowset_id = r.id), r.bytes,
                   'table', t.id, :txn
            FROM minidb_rowset r JOIN minidb_table t ON t.id = r.table_id
            WHERE r.table_id = :table_id AND r.first_version >= :first AND r.last_version <= :last
        """),
        {"kind": kind, "txn": f"{kind}-{table_id}", "table_id": table_id, "first": first, "last": last},
    ).rowcount
