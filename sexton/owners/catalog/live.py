"""Read the catalog's rowsets as live files: those that each has, must have, or may have."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import and_, case, func, select

from sexton.database.ranges import READ_ROWS, ranges, within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import DueMark, Ref
from sexton.owners.catalog.layout import ROOT, IndexFormat, parse, rowset_keys, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.records import OWN_SCHEMA, OWN_TABLET, STANDING, CatalogTransaction
from sexton.owners.catalog.tables import TABLES

ROWS_AT_ONCE = 5_000
LIVE = and_(TABLES.rowsets.c.state == RowsetState.VISIBLE, STANDING)
"""The condition that a rowset is visible, and neither its tablet nor an ancestor was dropped."""


def parts(tx: CatalogTransaction, rows: int) -> list[Part]:
    """Return ranges of about ``rows`` rowsets each."""
    ids = select(tx.t.rowsets.c.id).where(tx.in_instance(tx.t.rowsets.c.id))
    return [Part("records", *bounds) for bounds in ranges(tx.c, ids, rows)]


def read(tx: CatalogTransaction, part: Part) -> Iterator[list[LiveEntry]]:
    """Yield the entries of the rowsets in a part, in pages."""
    query = _rowsets(tx).where(within(tx.t.rowsets.c.id, part.after, part.until))
    for rows in tx.c.execution_options(yield_per=READ_ROWS).execute(query).partitions():
        yield [entry for row in rows for entry in _entries(row)]


def entries_of(tx: CatalogTransaction, records: Sequence[str]) -> list[LiveEntry]:
    """Return the entries of these rowsets (``rowset/ID``) now."""
    ids = sorted({record.partition("/")[2] for record in records})
    rows = tx.c.execute(_rowsets(tx).where(tx.in_instance(tx.t.rowsets.c.id, ids)))
    return [entry for row in rows for entry in _entries(row)]


def count_objects(tx: CatalogTransaction) -> int:
    """Count the files of live rowsets, in one statement."""
    rowset, schema = tx.t.rowsets, tx.t.schemas
    inverted = func.coalesce(func.jsonb_array_length(schema.c.inverted), 0)
    is_v2 = func.coalesce(rowset.c.format, schema.c.format) == IndexFormat.V2
    index_files = case((and_(is_v2, inverted > 0), 1), (is_v2, 0), else_=inverted)
    files = rowset.c.segments * (1 + index_files) + case((rowset.c.bitmap, 1), else_=0)
    of_rowsets = rowset.join(tx.t.tablets, OWN_TABLET).outerjoin(schema, OWN_SCHEMA)
    total = select(func.coalesce(func.sum(files), 0)).select_from(of_rowsets)
    return int(tx.c.execute(total.where(tx.in_instance(rowset.c.id), LIVE)).scalar_one())


def named_by(tx: CatalogTransaction, marks: Sequence[DueMark]) -> set[Ref]:
    """Return the marks that name a file of a live rowset by their own keys or prefix, whatever their kind."""
    refs_by_rowset: dict[str, set[Ref]] = defaultdict(set)
    refs_by_tablet: dict[str, list[tuple[str, Ref]]] = defaultdict(list)
    live_refs: set[Ref] = set()
    for mark in marks:
        for file in filter(None, map(parse, mark.keys or ())):
            refs_by_rowset[file.rowset].add(mark.ref)
        if mark.prefix is not None:
            tablet, slash, _ = mark.prefix.removeprefix(ROOT).partition("/")
            if mark.prefix.startswith(ROOT) and slash:
                refs_by_tablet[tablet].append((mark.prefix, mark.ref))
            elif _has_live_under(tx, mark.prefix):
                live_refs.add(mark.ref)
    rowset = tx.t.rowsets.c
    for row in _live_of(tx, rowset.id, refs_by_rowset):
        live_refs |= refs_by_rowset[row.id]
    for row in _live_of(tx, rowset.tablet_id, refs_by_tablet):
        files = rowset_prefix(row.tablet_id, row.id)
        named = refs_by_tablet[row.tablet_id]
        live_refs |= {ref for prefix, ref in named if files.startswith(prefix) or prefix.startswith(files)}
    return live_refs


def _live_of(tx: CatalogTransaction, column: Any, values: Mapping[str, object]) -> Iterator[Any]:
    """Yield id and tablet of the live rowsets whose column is one of the values."""
    in_order = sorted(values)
    for start in range(0, len(in_order), ROWS_AT_ONCE):
        yield from tx.c.execute(_live(tx).where(tx.in_instance(column, in_order[start : start + ROWS_AT_ONCE])))


def _has_live_under(tx: CatalogTransaction, prefix: str) -> bool:
    """Return whether a live rowset has files under a prefix that may mean several tablets, or all of them."""
    if not (prefix.startswith(ROOT) or ROOT.startswith(prefix)):
        return False
    is_under = tx.t.rowsets.c.tablet_id.startswith(prefix.removeprefix(ROOT), autoescape=True)
    query = _live(tx) if ROOT.startswith(prefix) else _live(tx).where(is_under)
    return tx.c.execute(query.limit(1)).first() is not None


def _live(tx: CatalogTransaction) -> Any:
    rowset = tx.t.rowsets
    rowsets = select(rowset.c.id, rowset.c.tablet_id).join(tx.t.tablets, OWN_TABLET)
    return rowsets.where(tx.in_instance(rowset.c.id), LIVE)


def _rowsets(tx: CatalogTransaction) -> Any:
    """Select rowsets with their schema, and whether neither their tablet nor any ancestor was dropped."""
    rowset, schema = tx.t.rowsets, tx.t.schemas
    columns = rowset, schema.c.format.label("schema_format"), schema.c.inverted, STANDING.label("stands")
    joined = rowset.outerjoin(tx.t.tablets, OWN_TABLET).outerjoin(schema, OWN_SCHEMA)
    return select(*columns).select_from(joined).where(tx.in_instance(rowset.c.id))


def _entries(row: Any) -> list[LiveEntry]:
    """Return the files of a rowset; the prefix stands for files that cannot be named exactly."""
    record = f"rowset/{row.id}"
    try:
        prefix = rowset_prefix(row.tablet_id, row.id)
    except BadInput:
        return []  # no key can contain such an id
    anything = LiveEntry(row.vault, prefix, prefix=True, live=False, record=record)
    if row.state != RowsetState.VISIBLE or not row.stands:
        return [anything]
    try:
        index_format = IndexFormat(row.format or row.schema_format or IndexFormat.V2)
        keys = rowset_keys(row.tablet_id, row.id, row.segments, row.bitmap, index_format, row.inverted or ())
    except (ValueError, BadInput):
        return [anything]
    files = [LiveEntry(row.vault, key, prefix=False, live=True, record=record) for key in keys]
    # Without its schema the names of its index files are unknown: such files may exist.
    return files if row.schema_format is not None else [*files, anything]
