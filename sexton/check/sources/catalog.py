"""The catalog's rowsets as the check's live side reads them: which files each has, must have, or may have."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import and_, select

from sexton.database.ranges import READ_ROWS, ranges, within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.owners.catalog import parents
from sexton.owners.catalog.layout import FILE_NAME, IndexFormat, rowset_keys, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction

PATTERN = FILE_NAME
"""What every key of the catalog's files matches."""


def parts(s: CatalogTransaction, rows: int) -> list[Part]:
    """Return ranges of about so many rowsets."""
    return [
        Part("records", *ends) for ends in ranges(s.c, select(s.t.rowsets.c.id).where(s.mine(s.t.rowsets.c.id)), rows)
    ]


def read(s: CatalogTransaction, part: Part) -> Iterator[list[LiveEntry]]:
    """Yield what the rowsets of a part stand for, in pages."""
    chosen = _rowsets(s).where(within(s.t.rowsets.c.id, part.after, part.until))
    for rows in s.c.execution_options(yield_per=READ_ROWS).execute(chosen).partitions():
        yield [known for row in rows for known in _files(row)]


def named(s: CatalogTransaction, records: Sequence[str]) -> list[LiveEntry]:
    """Return what is known now of these rowsets, named as ``rowset/ID``."""
    ids = sorted({record.partition("/")[2] for record in records})
    rows = s.c.execute(_rowsets(s).where(s.mine(s.t.rowsets.c.id, ids)))
    return [known for row in rows for known in _files(row)]


def _rowsets(s: CatalogTransaction) -> Any:
    """Select rowsets with their schema, and whether all that is above them stands."""
    rowset, tablet, schema = s.t.rowsets, s.t.tablets, s.t.schemas
    its = and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance)
    written = and_(
        schema.c.index_id == rowset.c.index_id,
        schema.c.version == rowset.c.schema_version,
        schema.c.instance == rowset.c.instance,
    )
    columns = (rowset, schema.c.format.label("own"), schema.c.inverted, parents.standing(s).label("stands"))
    return (
        select(*columns)
        .select_from(rowset.outerjoin(tablet, its).outerjoin(schema, written))
        .where(s.mine(rowset.c.id))
    )


def _files(row: Any) -> list[LiveEntry]:
    """Return the files of one: what cannot be named exactly is known by its prefix."""
    record = f"rowset/{row.id}"
    try:
        anything = LiveEntry(row.vault, rowset_prefix(row.tablet_id, row.id), True, False, None, record)
    except BadInput:
        return []  # no key holds such an id
    if row.state != RowsetState.VISIBLE or not row.stands:
        return [anything]
    try:  # without its schema nobody knows its index files: they may be there
        format_ = IndexFormat(row.format or row.own or IndexFormat.V2)
        keys = rowset_keys(row.tablet_id, row.id, row.segments, row.bitmap, format_, row.inverted or ())
    except (ValueError, BadInput):
        return [anything]
    live = [LiveEntry(row.vault, key, False, True, None, record) for key in keys]
    return live if row.own is not None else [*live, anything]
