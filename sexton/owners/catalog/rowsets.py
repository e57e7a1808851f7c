"""Name the files of rowsets, by the schema under which they were written: of marks, and of everything that is live."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, case, exists, false, func, null, or_, select

from sexton.database.rows import READ_ROWS, ranges, within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.owners.catalog.layout import ROOT, IndexFormat, parse, rowset_keys, rowset_prefix
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.records import OWN_SCHEMA, OWN_TABLET, STANDING, CatalogTransaction
from sexton.owners.catalog.tables import TABLES

WAITS = "its compaction inputs"
MAX_BIGINT = 2**63 - 1
_ANY_INDEX = ("unknown",)
"""Stands for the inverted indexes of a rowset without a schema."""
NO_RECORD = Expansion(problem=(Reason.UNEXPANDED, "the catalog has no record of this rowset, so its files are unknown"))
ROWS_AT_ONCE = 5_000
LIVE = and_(TABLES.rowsets.c.state == RowsetState.VISIBLE, STANDING)
"""The condition that a rowset is visible, and neither its tablet nor an ancestor was dropped."""


def expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the files of each mark, by one statement over the rowsets with their schemas."""
    of_marks = tx.in_instance(tx.t.rowsets.c.id, [mark.id for mark in marks])
    rows = {row.id: row for row in tx.c.execute(_with_schema(tx).where(of_marks))}
    expansions: dict[Ref, Expansion] = {}
    for mark in marks:
        if mark.id in rows:
            expansions[mark.ref] = _expansion(mark, rows[mark.id])
        else:  # in the second pass: the record was removed, and a crash followed
            expansions[mark.ref] = Expansion() if mark.in_second_pass else NO_RECORD
    return expansions


def _with_schema(tx: CatalogTransaction, *more: Any) -> Any:
    """Select rowsets with their schema, NULL without one."""
    rowset, schema = tx.t.rowsets, tx.t.schemas
    columns = rowset, schema.c.format.label("schema_format"), schema.c.inverted, *more
    joined = rowset.outerjoin(tx.t.tablets, OWN_TABLET).outerjoin(schema, OWN_SCHEMA)
    return select(*columns).select_from(joined).where(tx.in_instance(rowset.c.id))


def _expansion(mark: DueMark, row: Any) -> Expansion:
    """Return the files of one mark. Without a schema only V1 index names are unknown: they hold ids of indexes."""
    if mark.in_second_pass:  # the second pass lists the prefix: files deleted in the first pass would be counted again
        return Expansion(places=(Place(vault=row.vault, prefix=rowset_prefix(row.tablet_id, row.id)),))
    index_format = row.format or row.schema_format or IndexFormat.V2
    inverted, incomplete_reason = row.inverted or (), None
    if row.schema_format is None:
        # An index file of V2 has one name, whatever indexes are in it; the names of V1 cannot be guessed.
        inverted = () if index_format == IndexFormat.V1 else _ANY_INDEX
        incomplete_reason = None if row.format == IndexFormat.V2 else Reason.SCHEMA_MISSING
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
    # Without versions a range has no bounds, so nothing covers it. Ranges of whole numbers that adjoin are one.
    # Damaged versions make no range: such a rowset holds nothing, and nothing covers it.
    versions, others = (
        case((_are_damaged(t), null()), else_=func.int8range(t.c.first_version, t.c.last_version, "[]"))
        for t in (rowset, other)
    )
    overlaps = _overlap(rowset, other, RowsetState.VISIBLE, RowsetState.DROPPED)
    held = select(func.range_agg(others)).where(overlaps).scalar_subquery()
    is_covered = func.coalesce(held.op("@>", is_comparison=True)(versions), false())
    with_tablet = select(rowset.c.id).join(tx.t.tablets, OWN_TABLET)
    return tx.ids(with_tablet.where(tx.in_instance(rowset.c.id, ids), ~is_covered))


def _are_damaged(rowset: FromClause) -> ColumnElement[bool]:
    """Return the condition that the versions are in the wrong order, or that no number comes after the last."""
    return or_(rowset.c.first_version > rowset.c.last_version, rowset.c.last_version == MAX_BIGINT)


def _overlap(rowset: FromClause, other: FromClause, *states: RowsetState) -> ColumnElement[bool]:
    """Return the condition that another rowset of the tablet, in one of the states, holds some of the same versions."""
    return and_(
        other.c.tablet_id == rowset.c.tablet_id,
        other.c.instance == rowset.c.instance,
        other.c.state.in_(states),
        other.c.first_version <= rowset.c.last_version,
        other.c.last_version >= rowset.c.first_version,
    )


def live_parts(tx: CatalogTransaction, rows: int) -> list[Part]:
    """Return ranges of about ``rows`` rowsets each."""
    ids = select(tx.t.rowsets.c.id).where(tx.in_instance(tx.t.rowsets.c.id))
    return [Part("records", *bounds) for bounds in ranges(tx.c, ids, rows)]


def read_live(tx: CatalogTransaction, part: Part) -> Iterator[list[LiveEntry]]:
    """Yield the entries of the rowsets in a part, in pages."""
    query = _with_schema(tx, STANDING.label("stands")).where(within(tx.t.rowsets.c.id, part.after, part.until))
    for rows in tx.c.execution_options(yield_per=READ_ROWS).execute(query).partitions():
        yield [entry for row in rows for entry in _entries(row)]


def live_entries(tx: CatalogTransaction, records: Sequence[str]) -> list[LiveEntry]:
    """Return the entries of these rowsets (``rowset/ID``) now."""
    ids = sorted({record.partition("/")[2] for record in records})
    rows = tx.c.execute(_with_schema(tx, STANDING.label("stands")).where(tx.in_instance(tx.t.rowsets.c.id, ids)))
    return [entry for row in rows for entry in _entries(row)]


def count_live(tx: CatalogTransaction) -> int:
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
