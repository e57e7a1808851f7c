"""Files of written rowsets that were dropped or compacted: exact names, by the schema they were written under."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, exists, or_, select

from sexton.kernel.errors import BadInput
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.owners.catalog import parents
from sexton.owners.catalog.layout import IndexFormat, rowset_keys, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.policy import covered
from sexton.owners.catalog.scope import CatalogTransaction

NO_RECORD = Expansion(
    problem=(Reason.UNEXPANDED, "the catalog has no record of this rowset, so nobody knows its files")
)


def expand(s: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Name the files of each, with one look at the rowsets and one at their schemas."""
    rowset = s.t.rowsets
    rows = s.c.execute(select(rowset).where(s.mine(rowset.c.id, [m.id for m in marks]))).all()
    known = {row.id: row for row in rows}
    schemas = read_schemas(s, {(row.index_id, row.schema_version) for row in rows})
    return {
        m.ref: _files(m, known[m.id], schemas.get((known[m.id].index_id, known[m.id].schema_version)))
        if m.id in known
        else (Expansion() if m.swept else NO_RECORD)  # its record went, and then a crash came
        for m in marks
    }


def read_schemas(s: CatalogTransaction, wanted: set[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """Return the schemas of these (index, version) that have a record; each is read once, all by one statement."""
    schema = s.t.schemas
    per: dict[int, list[str]] = defaultdict(list)
    for index, version in wanted:
        per[version].append(index)
    if not per:
        return {}
    each = [and_(schema.c.version == version, s.mine(schema.c.index_id, ids)) for version, ids in per.items()]
    return {(row.index_id, row.version): row for row in s.c.execute(select(schema).where(or_(*each)))}


def _files(mark: DueMark, row: Any, schema: Any) -> Expansion:
    """Name the files of one. Without its schema only V1 index names are lost: they hold the ids of indexes.

    What the rowset says about its format wins over the schema: it may have been written before the schema changed.
    """
    if mark.swept:  # what is left is listed: names that went before would be counted again
        return Expansion(places=(Place(vault=row.vault, prefix=rowset_prefix(row.tablet_id, row.id)),))
    own, lacking, inverted = row.format, None, ["unknown"]
    if schema is not None:
        own, inverted = own or schema.format, schema.inverted
    elif own != IndexFormat.V2:
        lacking = Reason.SCHEMA_MISSING
        own = own or IndexFormat.V2
    try:
        # An index file of the newer format has one name, whatever indexes are in it; those of V1 cannot be guessed.
        named = () if lacking and own == IndexFormat.V1 else inverted
        keys = rowset_keys(row.tablet_id, row.id, row.segments, row.bitmap, IndexFormat(own), named)
    except ValueError:
        return Expansion(problem=(Reason.UNEXPANDED, f"its index format {own!r} is unknown"))
    except BadInput as e:
        return Expansion(problem=(Reason.UNEXPANDED, str(e)))
    places = (Place(vault=row.vault, keys=tuple(keys)),) if keys else ()
    # Of a tablet with copies on backends, some of these may still have to fetch what was replaced.
    versions = None if row.last_version is None else (row.tablet_id, row.last_version)
    return Expansion(places=places, lacking=lacking, versions=versions)


def mended(s: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return those whose schema has a record again, or whose tablet goes as a whole, so that no name is needed."""
    rowset, schema, tablet = s.t.rowsets, s.t.schemas, s.t.tablets
    same = and_(
        schema.c.index_id == rowset.c.index_id,
        schema.c.version == rowset.c.schema_version,
        schema.c.instance == rowset.c.instance,
    )
    its = and_(tablet.c.id == rowset.c.tablet_id, tablet.c.instance == rowset.c.instance)
    readable = or_(exists().where(same), ~parents.standing(s))
    return s.ids(select(rowset.c.id).outerjoin(tablet, its).where(s.mine(rowset.c.id, ids), readable))


def visible(s: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return those that are visible."""
    rowset = s.t.rowsets
    return s.ids(select(rowset.c.id).where(s.mine(rowset.c.id, ids), rowset.c.state == RowsetState.VISIBLE))


def uncovered(s: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return those with a version that no visible rowset of their tablet holds.

    A rowset that was dropped itself counts as well: nobody wants its versions back by way of what went into it.
    """
    rowset = s.t.rowsets
    other = rowset.alias("other")
    overlaps = _overlap(rowset, other, RowsetState.VISIBLE, RowsetState.DROPPED)
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    near = select(rowset.c.id, other.c.first_version, other.c.last_version).join(other, overlaps)
    for row in s.c.execute(near.where(s.mine(rowset.c.id, ids))):
        ranges[row.id].append((row.first_version, row.last_version))
    own = select(rowset.c.id, rowset.c.first_version, rowset.c.last_version).where(s.mine(rowset.c.id, ids))
    return [
        row.id
        for row in s.c.execute(own)
        if row.first_version is None or not covered(row.first_version, row.last_version, ranges[row.id])
    ]


def covering(s: CatalogTransaction, ids: Sequence[str]) -> set[str]:
    """Return those that hold versions of a compacted rowset: without their record that would seem live again."""
    rowset = s.t.rowsets
    other = rowset.alias("other")
    overlaps = _overlap(rowset, other, RowsetState.COMPACTED)
    return set(s.ids(select(rowset.c.id).where(s.mine(rowset.c.id, ids), exists().where(overlaps))))


def _overlap(one: FromClause, other: FromClause, *states: RowsetState) -> ColumnElement[bool]:
    """Return the condition that another rowset of the tablet, in one of the states, holds some of the same versions."""
    return and_(
        other.c.tablet_id == one.c.tablet_id,
        other.c.instance == one.c.instance,
        other.c.state.in_(states),
        other.c.first_version <= one.c.last_version,
        other.c.last_version >= one.c.first_version,
    )


def forget(s: CatalogTransaction, ids: Sequence[str], *states: RowsetState) -> None:
    """Remove the records of those that are in one of the states."""
    s.remove(s.t.rowsets.c.id, ids, s.t.rowsets.c.state.in_(states))
