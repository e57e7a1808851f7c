"""Explain files and ids of the catalog: the marks that a key's text names, live rowsets, records."""

from collections.abc import Collection, Iterator

from sqlalchemy import RowMapping, Table, inspect, select

from sexton.marks.model import Ref
from sexton.owners.catalog import layout, rowsets
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.port import RecordText

ROWSET_KINDS = ("prepared", "compacted", "dropped")
PARENT_KINDS = ("table", "index", "partition")
"""Kinds of what a tablet belongs to."""


def refs_of_keys(tx: CatalogTransaction, keys: Collection[str]) -> set[Ref]:
    """Return the marks that delete the files with these keys, or whose drop will mark the files."""
    files = _rowset_files(keys)
    refs = {Ref(kind, f.rowset) for f in files for kind in ROWSET_KINDS} | {Ref("tablet", f.tablet) for f in files}
    t = tx.t.tablets
    if files and _exists(tx, t):
        is_of_files = tx.in_instance(t.c.id, {f.tablet for f in files})
        for ids in tx.c.execute(select(t.c.table_id, t.c.index_id, t.c.partition_id).where(is_of_files)):
            refs |= {Ref(kind, id_) for kind, id_ in zip(PARENT_KINDS, ids, strict=True)}
    return refs


def live_texts(tx: CatalogTransaction, keys: Collection[str]) -> Iterator[str]:
    """Yield each rowset that a key names and that is visible, and what it belongs to."""
    files = _rowset_files(keys)
    visible = set(rowsets.visible(tx, [file.rowset for file in files])) if files else set()
    for file in files:
        if file.rowset in visible:
            yield f"rowset {file.rowset} of tablet {file.tablet}{_parents_text(tx, file.tablet)}"


def records_with(tx: CatalogTransaction, ids: Collection[str]) -> Iterator[RecordText]:
    """Yield each record of the catalog that has one of these ids."""
    if not _exists(tx, tx.t.tablets):
        return
    t = tx.t
    tables = (t.tables, t.indexes, t.partitions, t.tablets, t.rowsets)
    for kind, table in zip((*PARENT_KINDS, "tablet", "rowset"), tables, strict=True):
        for row in tx.c.execute(select(table).where(tx.in_instance(table.c.id, ids))).mappings():
            yield RecordText(kind, row["id"], _record_text(row))


def _record_text(row: RowMapping) -> str:
    """Return the state of one record, and what it belongs to."""
    state = row.get("state") or ("dropped" if row.get("dropped") else "not dropped")
    parents = (f"{parent} {row[f'{parent}_id']}" for parent in ("tablet", *PARENT_KINDS) if row.get(f"{parent}_id"))
    return ", ".join([f"the catalog has a record of it: {state}", *parents])


def _parents_text(tx: CatalogTransaction, tablet: str) -> str:
    """Return the table, index and partition of a tablet as text; empty where the catalog has no such tablet."""
    t = tx.t.tablets
    ids = tx.c.execute(
        select(t.c.table_id, t.c.index_id, t.c.partition_id).where(tx.in_instance(t.c.id, [tablet]))
    ).one_or_none()
    return "" if ids is None else "".join(f", {kind} {id_}" for kind, id_ in zip(PARENT_KINDS, ids, strict=True))


def _exists(tx: CatalogTransaction, table: Table) -> bool:
    """Return whether the catalog's table is there; a database without a catalog has none."""
    return inspect(tx.c).has_table(table.name, table.schema)


def _rowset_files(keys: Collection[str]) -> list[layout.RowsetFile]:
    return [file for file in map(layout.parse, sorted(keys)) if file is not None]
