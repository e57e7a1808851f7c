"""Read the catalog's rowsets as live entries: the files that each has, must have, or may have."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import select

from sexton.database.ranges import READ_ROWS, ranges, within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.owners.catalog import parents
from sexton.owners.catalog.layout import IndexFormat, rowset_keys, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


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


def _rowsets(tx: CatalogTransaction) -> Any:
    """Select rowsets with their schema, and whether neither their tablet nor any ancestor was dropped."""
    rowset, tablet, schema = tx.t.rowsets, tx.t.tablets, tx.t.schemas
    columns = (
        rowset,
        schema.c.format.label("schema_format"),
        schema.c.inverted,
        parents.standing(tx).label("stands"),
    )
    return (
        select(*columns)
        .select_from(rowset.outerjoin(tablet, tx.is_own_tablet).outerjoin(schema, tx.is_own_schema))
        .where(tx.in_instance(rowset.c.id))
    )


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
