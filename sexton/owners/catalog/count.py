"""How many files the visible rowsets have, by their records."""

from sqlalchemy import and_, case, func, select

from sexton.owners.catalog import parents
from sexton.owners.catalog.layout import IndexFormat
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def live_objects(s: CatalogTransaction) -> int:
    """Count data, index and bitmap files of visible rowsets under nothing dropped, in one statement."""
    rowset, tablet, schema = s.t.rowsets, s.t.tablets, s.t.schemas
    length = func.jsonb_array_length if s.db.dialect == "postgresql" else func.json_array_length
    inverted = func.coalesce(length(schema.c.inverted), 0)
    v2 = func.coalesce(rowset.c.format, schema.c.format) == IndexFormat.V2
    indexes = case((and_(v2, inverted > 0), 1), (v2, 0), else_=inverted)
    files = rowset.c.segments * (1 + indexes) + case((rowset.c.bitmap, 1), else_=0)
    its = and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance)
    written = and_(
        schema.c.index_id == rowset.c.index_id,
        schema.c.version == rowset.c.schema_version,
        schema.c.instance == rowset.c.instance,
    )
    chosen = select(func.coalesce(func.sum(files), 0)).select_from(rowset.join(tablet, its).outerjoin(schema, written))
    visible = [rowset.c.instance == s.instance, rowset.c.state == RowsetState.VISIBLE, parents.standing(s)]
    return int(s.c.execute(chosen.where(*visible)).scalar_one())
