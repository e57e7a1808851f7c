"""Count the files of visible rowsets, by their records."""

from sqlalchemy import ColumnElement, and_, case, func, select

from sexton.owners.catalog import parents
from sexton.owners.catalog.layout import IndexFormat
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def live_objects(tx: CatalogTransaction) -> int:
    """Count the files of visible rowsets whose ancestors were not dropped, in one statement."""
    rowset, tablet, schema = tx.t.rowsets, tx.t.tablets, tx.t.schemas
    query = select(func.coalesce(func.sum(_files_per_rowset(tx)), 0)).select_from(
        rowset.join(tablet, tx.is_own_tablet).outerjoin(schema, tx.is_own_schema)
    )
    is_live = [rowset.c.instance == tx.instance, rowset.c.state == RowsetState.VISIBLE, parents.standing(tx)]
    return int(tx.c.execute(query.where(*is_live)).scalar_one())


def _files_per_rowset(tx: CatalogTransaction) -> ColumnElement[int]:
    rowset, schema = tx.t.rowsets, tx.t.schemas
    inverted_indexes = func.coalesce(func.jsonb_array_length(schema.c.inverted), 0)
    is_v2 = func.coalesce(rowset.c.format, schema.c.format) == IndexFormat.V2
    index_files = case((and_(is_v2, inverted_indexes > 0), 1), (is_v2, 0), else_=inverted_indexes)
    files: ColumnElement[int] = rowset.c.segments * (1 + index_files) + case((rowset.c.bitmap, 1), else_=0)
    return files
