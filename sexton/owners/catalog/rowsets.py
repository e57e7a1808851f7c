"""Resolve dropped or compacted rowsets to exact file names, by the schema under which they were written."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, exists, or_, select

from sexton.kernel.errors import BadInput
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.owners.catalog.layout import IndexFormat, rowset_keys, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.records import OWN_SCHEMA, OWN_TABLET, STANDING, CatalogTransaction

WAITS = "its compaction inputs"
_ANY_INDEX = ("unknown",)
"""Stands for the inverted indexes of a rowset without a schema."""
NO_RECORD = Expansion(problem=(Reason.UNEXPANDED, "the catalog has no record of this rowset, so its files are unknown"))


def expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the files of each mark, by one statement over the rowsets and one over their schemas."""
    rowset = tx.t.rowsets
    rows = tx.c.execute(select(rowset).where(tx.in_instance(rowset.c.id, [mark.id for mark in marks]))).all()
    rows_by_id = {row.id: row for row in rows}
    schemas = _read_schemas(tx, {(row.index_id, row.schema_version) for row in rows})
    expansions: dict[Ref, Expansion] = {}
    for mark in marks:
        row = rows_by_id.get(mark.id)
        if row is not None:
            expansions[mark.ref] = _expansion(mark, row, schemas.get((row.index_id, row.schema_version)))
        else:  # in the second pass: the record was removed, and a crash followed
            expansions[mark.ref] = Expansion() if mark.in_second_pass else NO_RECORD
    return expansions


def _read_schemas(tx: CatalogTransaction, versions: set[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """Return the schemas of these (index, version) that have a record, by one statement."""
    schema = tx.t.schemas
    indexes_by_version: dict[int, list[str]] = defaultdict(list)
    for index, version in versions:
        indexes_by_version[version].append(index)
    if not indexes_by_version:
        return {}
    conditions = [
        and_(schema.c.version == version, tx.in_instance(schema.c.index_id, indexes))
        for version, indexes in indexes_by_version.items()
    ]
    return {(row.index_id, row.version): row for row in tx.c.execute(select(schema).where(or_(*conditions)))}


def _expansion(mark: DueMark, row: Any, schema: Any) -> Expansion:
    """Return the files of one mark. Without a schema only V1 index names are unknown: they hold ids of indexes."""
    if mark.in_second_pass:  # the second pass lists the prefix: files deleted in the first pass would be counted again
        return Expansion(places=(Place(vault=row.vault, prefix=rowset_prefix(row.tablet_id, row.id)),))
    index_format, inverted, incomplete_reason = _index_files(row, schema)
    try:
        keys = rowset_keys(row.tablet_id, row.id, row.segments, row.bitmap, IndexFormat(index_format), inverted)
    except ValueError:
        return Expansion(problem=(Reason.UNEXPANDED, f"its index format {index_format!r} is unknown"))
    except BadInput as e:
        return Expansion(problem=(Reason.UNEXPANDED, str(e)))
    places = (Place(vault=row.vault, keys=tuple(keys)),) if keys else ()
    # If the tablet has copies on backends, some of them may still have to fetch the versions that were replaced.
    versions = None if row.last_version is None else (row.tablet_id, row.last_version)
    return Expansion(places=places, lacking=incomplete_reason, versions=versions)


def _index_files(row: Any, schema: Any) -> tuple[str, Sequence[str], Reason | None]:
    """Return the index format of a rowset, the inverted indexes with files, and why some files cannot be named.

    The format in the rowset's record takes precedence: the rowset may have been written before the schema changed.
    """
    if schema is not None:
        return row.format or schema.format, schema.inverted, None
    if row.format == IndexFormat.V2:
        return row.format, _ANY_INDEX, None
    # An index file of V2 has one name, whatever indexes are in it; the names of V1 cannot be guessed.
    index_format = row.format or IndexFormat.V2
    return index_format, () if index_format == IndexFormat.V1 else _ANY_INDEX, Reason.SCHEMA_MISSING


def resolvable(tx: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return rowsets whose schema has a record again, or whose tablet is deleted whole, so that no name is needed."""
    rowset, tablet = tx.t.rowsets, tx.t.tablets
    readable = or_(exists().where(OWN_SCHEMA), ~STANDING)
    return tx.ids(select(rowset.c.id).outerjoin(tablet, OWN_TABLET).where(tx.in_instance(rowset.c.id, ids), readable))


def uncovered(tx: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return the rowsets with a version that no visible rowset of their tablet holds, if it has a record.

    A dropped rowset counts like a visible one: its versions are not needed, nor are the rowsets compacted into it.
    """
    rowset = tx.t.rowsets
    other = rowset.alias("other")
    overlaps = _overlap(rowset, other, RowsetState.VISIBLE, RowsetState.DROPPED)
    ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
    overlapping = select(rowset.c.id, other.c.first_version, other.c.last_version).join(other, overlaps)
    for row in tx.c.execute(overlapping.where(tx.in_instance(rowset.c.id, ids))):
        ranges[row.id].append((row.first_version, row.last_version))
    columns = rowset.c.id, rowset.c.first_version, rowset.c.last_version
    queried = select(*columns).join(tx.t.tablets, OWN_TABLET).where(tx.in_instance(rowset.c.id, ids))
    return [
        row.id
        for row in tx.c.execute(queried)
        if row.first_version is None or not covered(row.first_version, row.last_version, ranges[row.id])
    ]


def expand_dropped(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the files of dropped rowsets. A rowset waits while a marked one was compacted into it.

    Without its record the compacted one would seem live again; one whose mark was discarded is not deleted.
    """
    rowset = tx.t.rowsets
    other = rowset.alias("other")
    overlaps = and_(_overlap(rowset, other, RowsetState.COMPACTED), tx.has_mark(tx.db.t.mark, "compacted", other.c.id))
    of_marks = tx.in_instance(rowset.c.id, [mark.id for mark in marks])
    waiting = set(tx.ids(select(rowset.c.id).where(of_marks, exists().where(overlaps))))
    return {
        ref: expansion._replace(waits=WAITS) if ref.id in waiting else expansion
        for ref, expansion in expand(tx, marks).items()
    }


def _overlap(rowset: FromClause, other: FromClause, *states: RowsetState) -> ColumnElement[bool]:
    """Return the condition that another rowset of the tablet, in one of the states, holds some of the same versions."""
    return and_(
        other.c.tablet_id == rowset.c.tablet_id,
        other.c.instance == rowset.c.instance,
        other.c.state.in_(states),
        other.c.first_version <= rowset.c.last_version,
        other.c.last_version >= rowset.c.first_version,
    )


def covered(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return whether every version from ``first`` to ``last`` (both inclusive) is in one of the ranges."""
    next_version = first
    for start, end in sorted(ranges):
        if start > next_version:
            return False
        next_version = max(next_version, end + 1)
        if next_version > last:
            return True
    return False
