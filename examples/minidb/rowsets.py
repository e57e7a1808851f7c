"""Rows about rowsets: found, inserted, and marked as garbage, always in the transaction of the caller."""

import hashlib
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, func, insert, select, text

from examples.minidb.schema import file, rowset, table


class MiniDBError(Exception):
    """An operation is refused; nothing of it happened."""


class Size(NamedTuple):
    """How much there is of something."""

    files: int
    bytes: int


@dataclass(frozen=True)
class Written:
    """A rowset whose files are in object storage and which no metadata mentions yet."""

    id: str
    vault: str
    files: tuple[tuple[str, bytes], ...]

    @property
    def size(self) -> Size:
        """Return how much was written."""
        return Size(len(self.files), sum(len(content) for _, content in self.files))


def find_table(c: Connection, instance: str, name: str, *, dropped: bool = False, lock: bool = False) -> Row[Any]:
    """Return a table's row; ``lock`` it where the transaction goes on to change what the table is made of."""
    found = select(table).where(table.c.instance == instance, table.c.name == name, table.c.dropped == dropped)
    row = c.execute(found.with_for_update() if lock else found).one_or_none()
    if row is None:
        raise MiniDBError(f"there is no {'dropped ' if dropped else ''}table {name}")
    return row


def last_version(c: Connection, table_id: str) -> int:
    """Return the newest version of a table, 0 where it is empty."""
    return c.execute(select(func.max(rowset.c.last_version)).where(rowset.c.table_id == table_id)).scalar() or 0


def insert_rowset(c: Connection, table_id: str, written: Written, first: int, last: int) -> None:
    """Make a written rowset part of a table, as the versions from first to last."""
    own = {"id": written.id, "table_id": table_id, "vault": written.vault, **written.size._asdict()}
    c.execute(insert(rowset).values(first_version=first, last_version=last, **own))
    files = [
        {"key": key, "rowset_id": written.id, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for key, content in written.files
    ]
    c.execute(insert(file), files)


def mark_rowsets(c: Connection, kind: str, table_id: str, first: int, last: int) -> int:
    """Mark the rowsets of some versions as garbage: one mark each, with all its keys and its bytes. Return how many.

    One statement, so it costs the same for a table of a million files: nothing leaves the database. We name what an
    owner may name; state and time are Sexton's. Exact keys (at most 1,000 for one mark) spare Sexton a listing, and
    ``bytes`` is what a plan shows. The parent is the table, so that an operator can hold all of it by its id.
    ``contract.mark`` does the same from Python, row by row.

    Args:
        c: in the transaction that un-references them: earlier, and readers could lose files; later, and a crash in
            between would leave files that nobody remembers.
        kind: ``compacted`` or ``dropped``; it decides how long the files stay.
        table_id: whose rowsets.
        first: their first version at least.
        last: their last version at most.
    """
    lite = c.dialect.name == "sqlite"
    marks, keys = ("sexton_mark", "json_group_array") if lite else ("sexton.mark", "jsonb_agg")
    return c.execute(
        text(f"""
            INSERT INTO {marks} (instance, kind, id, vault, keys, bytes, parent_kind, parent_id, owner_txn)
            SELECT t.instance, :kind, r.id, r.vault,
                   (SELECT {keys}(f.key) FROM minidb_file f WHERE f.rowset_id = r.id), r.bytes,
                   'table', t.id, :txn
            FROM minidb_rowset r JOIN minidb_table t ON t.id = r.table_id
            WHERE r.table_id = :table_id AND r.first_version >= :first AND r.last_version <= :last
        """),
        {"kind": kind, "txn": f"{kind}-{table_id}", "table_id": table_id, "first": first, "last": last},
    ).rowcount
