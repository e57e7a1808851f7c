"""Explain the catalog's records: what the text of a key names, what a record belongs to, and what contradicts it."""

from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import Column, Select, and_, exists, func, literal, or_, select

from sexton.database.rows import READ_ROWS
from sexton.marks.model import Ref
from sexton.owners.catalog import kinds, model
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.records import OWN_SCHEMA, OWN_TABLET, PARENTS, STANDING, CatalogTransaction
from sexton.owners.catalog.tables import TABLES
from sexton.owners.port import RecordText

RECORDS = {**PARENTS, "tablet": TABLES.tablets, "rowset": TABLES.rowsets}
"""Kind of a record → the records."""
REFERENCES: tuple[tuple[str, str, Column[str], Column[str]], ...] = (
    *(("tablet", kind, TABLES.tablets.c[f"{kind}_id"], records.c.id) for kind, records in PARENTS.items()),
    ("index", "table", TABLES.indexes.c.table_id, TABLES.tables.c.id),
    ("partition", "table", TABLES.partitions.c.table_id, TABLES.tables.c.id),
    ("rowset", "tablet", TABLES.rowsets.c.tablet_id, TABLES.tablets.c.id),
    ("version", "partition", TABLES.versions.c.partition_id, TABLES.partitions.c.id),
    ("label", "transaction", TABLES.labels.c.txn_id, TABLES.txns.c.id),
)
"""Kind of a record, the kind of what it names, the column that names it, and the column that this refers to."""


def refs_of_keys(tx: CatalogTransaction, keys: Collection[str]) -> set[Ref]:
    """Return the marks that delete the files with these keys, or whose drop will mark the files."""
    files = _files(keys)
    refs = {Ref(kind, file.rowset) for file in files for kind in kinds.ROWSET_KINDS}
    for above in kinds.ancestors(tx, "tablet", [file.tablet for file in files]).values():
        refs |= set(above)
    return refs


def live_texts(tx: CatalogTransaction, keys: Collection[str]) -> Iterator[str]:
    """Yield each rowset that a key names and that is visible, and what it belongs to."""
    files = _files(keys)
    visible = kinds.live(tx, "dropped", [file.rowset for file in files])
    parents = kinds.ancestors(tx, "tablet", [file.tablet for file in files])
    for file in files:
        if file.rowset in visible:
            above = "".join(f", {ref.kind} {ref.id}" for ref in reversed(parents[file.tablet][1:]))
            yield f"rowset {file.rowset} of tablet {file.tablet}{above}"


def records_with(tx: CatalogTransaction, ids: Collection[str]) -> Iterator[RecordText]:
    """Yield each record of the catalog that has one of these ids, with its state and what it belongs to."""
    for kind, records in RECORDS.items():
        for row in tx.c.execute(select(records).where(tx.in_instance(records.c.id, ids))).mappings():
            state = row.get("state") or ("dropped" if row.get("dropped") else "not dropped")
            above = [f"{part} {row[f'{part}_id']}" for part in ("tablet", *reversed(PARENTS)) if row.get(f"{part}_id")]
            yield RecordText(kind, row["id"], ", ".join([f"the catalog has a record of it: {state}", *above]))


def contradictions(tx: CatalogTransaction) -> Iterator[RecordText]:
    """Yield each record that refers to a missing one, has wrong counters, or stays although it was dropped."""
    rowset, stats, streamed = tx.t.rowsets.c, tx.t.stats.c, tx.c.execution_options(yield_per=READ_ROWS)
    for kind, other, named, target in REFERENCES:
        has_target = exists().where(target == named, target.table.c.instance == named.table.c.instance)
        id_ = next(iter(named.table.primary_key)) if kind != "label" else named.table.c.label
        found = select(id_, literal(f"its {other} has no record: ") + named)
        found = found.where(tx.in_instance(named), ~has_target)
        if kind == "rowset":  # one with a mark is deleted by it; first those without a tablet, which are few
            lone = found.offset(0).subquery()
            found = select(lone).where(*(~tx.has_mark(tx.db.t.mark, k, lone.c.id) for k in kinds.ROWSET_KINDS))
        for row in streamed.execute(found):
            yield RecordText(kind, *row)
    is_visible = rowset.state == RowsetState.VISIBLE
    without_schema = select(rowset.id).where(tx.in_instance(rowset.id), is_visible, ~exists().where(OWN_SCHEMA))
    for id_ in streamed.execute(without_schema).scalars():
        yield RecordText("rowset", id_, "the schema it was written under has no record")
    counted = and_(rowset.tablet_id == stats.tablet_id, rowset.instance == stats.instance, is_visible)
    sums = ((stats.rowsets, func.count()), (stats.bytes, func.coalesce(func.sum(rowset.bytes), 0)))
    differs = or_(*(counter != select(total).where(counted).scalar_subquery() for counter, total in sums))
    for id_ in streamed.execute(select(stats.tablet_id).where(tx.in_instance(stats.tablet_id), differs)).scalars():
        yield RecordText("tablet", id_, "its counters differ from its visible rowsets")
    for kind, query in _without_mark(tx):
        for id_, text in streamed.execute(query):
            yield RecordText(kind, id_, text)


def _without_mark(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    """Yield (kind of record, a query of ids and texts) of what no round deletes: an operator discarded its mark."""
    with_table = "its table, index or partition is dropped"
    for kind, records in PARENTS.items():
        stays, table = [records.c.dropped, ~tx.has_mark(tx.db.t.mark, kind, records.c.id)], tx.t.tables.c
        end = "it stays"
        if kind != "table":
            end = "it is deleted when its table is dropped"
            of_table = (table.id == records.c.table_id, table.instance == records.c.instance)
            stays.append(exists().where(*of_table, ~table.dropped))
        found = select(records.c.id, literal(f"it was dropped, but has no mark: {end}"))
        yield kind, found.where(tx.in_instance(records.c.id), *stays)
    rowset, unmarked = tx.t.rowsets.c, [~tx.has_mark(tx.db.t.mark, k, tx.t.rowsets.c.id) for k in kinds.ROWSET_KINDS]
    in_use = [rowset.state != RowsetState.VISIBLE, exists().where(OWN_TABLET, STANDING)]
    text = literal("it is ") + rowset.state + f", but has no mark: it is deleted when {with_table}"
    yield "rowset", select(rowset.id, text).where(tx.in_instance(rowset.id), *in_use, *unmarked)
    txn, label = tx.t.txns.c, "txn_label"
    ended = [txn.parent_id.is_(None), kinds.KINDS[label].removable, ~tx.has_mark(tx.db.t.mark, label, txn.id)]
    text = literal("it has ended, but its record has no mark and stays")
    yield "txn", select(txn.id, text).where(tx.in_instance(txn.id), *ended)


def _files(keys: Collection[str]) -> list[model.RowsetFile]:
    return [file for file in map(model.parse, sorted(keys)) if file is not None]
