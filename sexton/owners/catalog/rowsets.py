"""Name the files of rowsets, of marks and of all that is live; end loads, and fence prepared rowsets.

Their writers are aborted, whose states are read by a later statement. The engine has set the marks to FENCED, so no
commit of them can succeed from now on; an earlier commit has removed its mark. Two cases remain, and both keep the
rowset: a load between its two phases, and one whose record is unreadable.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, FromClause, and_, case, exists, false, func, null, or_, select, update

from sexton.database.rows import READ_ROWS, ranges, within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import DueMark, Expansion, Fenced, Place, Reason, Ref
from sexton.owners.catalog.model import (
    JOB,
    ROOT,
    TXN,
    IndexFormat,
    RowsetState,
    TxnStatus,
    parse,
    rowset_keys,
    rowset_prefix,
)
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
    # Damaged versions, in the wrong order or with no number after the last, make no range: such a rowset holds nothing,
    # and nothing covers it.
    versions, others = (
        case(
            (or_(t.c.first_version > t.c.last_version, t.c.last_version == MAX_BIGINT), null()),
            else_=func.int8range(t.c.first_version, t.c.last_version, "[]"),
        )
        for t in (rowset, other)
    )
    overlaps = _overlap(rowset, other, RowsetState.VISIBLE, RowsetState.DROPPED)
    held = select(func.range_agg(others)).where(overlaps).scalar_subquery()
    is_covered = func.coalesce(held.op("@>", is_comparison=True)(versions), false())
    with_tablet = select(rowset.c.id).join(tx.t.tablets, OWN_TABLET)
    return tx.ids(with_tablet.where(tx.in_instance(rowset.c.id, ids), ~is_covered))


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
            elif mark.prefix.startswith(ROOT) or ROOT.startswith(mark.prefix):  # several tablets, or all of them
                is_under = tx.t.rowsets.c.tablet_id.startswith(mark.prefix.removeprefix(ROOT), autoescape=True)
                query = _live(tx) if ROOT.startswith(mark.prefix) else _live(tx).where(is_under)
                if tx.c.execute(query.limit(1)).first() is not None:
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


FENCE_BATCH = 256
"""Prepared rowsets whose writers are aborted in one transaction."""
TIMEOUTS_AT_ONCE = 1_000
_COMMITTING = (TxnStatus.PRECOMMITTED, TxnStatus.COMMITTED, TxnStatus.VISIBLE)
Writers = Mapping[str, str | None]
"""Rowset id → the ``owner_txn`` of its mark, which names the transaction or compaction that writes it."""


def fenced(tx: CatalogTransaction, ids: Collection[str]) -> dict[str, str | None]:
    """Return the writers of those marks that are FENCED: a rowset that was committed in between has no mark."""
    mark = tx.db.t.mark
    is_fenced = [tx.in_instance(mark.c.id, ids), mark.c.kind == "prepared", mark.c.state == "FENCED"]
    return {row.id: row.owner_txn for row in tx.c.execute(select(mark.c.id, mark.c.owner_txn).where(*is_fenced))}


def abort(tx: CatalogTransaction, writers: Writers) -> None:
    """Abort the running loads among the writers, and their parent loads; remove compaction jobs."""
    txn, job = tx.t.txns, tx.t.jobs
    txn_ids = _ids(writers, TXN)
    parent_ids = select(txn.c.parent_id).where(tx.in_instance(txn.c.id, txn_ids), txn.c.parent_id.is_not(None))
    root_ids = [*txn_ids, *tx.ids(parent_ids)]
    is_root = [tx.in_instance(txn.c.id, root_ids), txn.c.parent_id.is_(None)]
    is_running_root = [*is_root, txn.c.status == TxnStatus.PREPARED]
    aborted = tx.c.execute(update(txn).where(*is_running_root).values(status=TxnStatus.ABORTED).returning(txn.c.id))
    end(tx, list(aborted.scalars()))
    parent = txn.alias("root")
    has_no_parent_record = ~exists().where(parent.c.id == txn.c.parent_id, parent.c.instance == txn.c.instance)
    is_lone_part = [txn.c.parent_id.is_not(None), has_no_parent_record, txn.c.status == TxnStatus.PREPARED]
    tx.change(txn.c.id, txn_ids, *is_lone_part, status=TxnStatus.ABORTED)
    tx.remove(job.c.id, _ids(writers, JOB))


def judge(tx: CatalogTransaction, writers: Writers) -> dict[str, tuple[Fenced, str]]:
    """Return for each rowset whether its writer can still commit it, as the records are now."""
    rowset, job, txn = tx.t.rowsets, tx.t.jobs, tx.t.txns
    parent = txn.alias("root")
    is_parent = (parent.c.id == txn.c.parent_id) & (parent.c.instance == txn.c.instance)
    query = select(txn.c.id, txn.c.status, parent.c.status).select_from(txn.outerjoin(parent, is_parent))
    rows = tx.c.execute(query.where(tx.in_instance(txn.c.id, _ids(writers, TXN))))
    statuses = {row[0]: [status for status in row[1:] if status is not None] for row in rows}  # its own, its parent's
    is_visible = [tx.in_instance(rowset.c.id, list(writers)), rowset.c.state == RowsetState.VISIBLE]
    visible_ids = set(tx.ids(select(rowset.c.id).where(*is_visible)))
    job_ids = set(tx.ids(select(job.c.id).where(tx.in_instance(job.c.id, _ids(writers, JOB)))))
    answers = {}
    for rowset_id, writer in writers.items():
        name = writer or ""
        if rowset_id in visible_ids:
            answers[rowset_id] = (Fenced.IN_USE, "it is visible")
        elif name.startswith(TXN):
            answers[rowset_id] = verdict(statuses.get(name.removeprefix(TXN), ()))
        elif name.startswith(JOB):
            runs = name.removeprefix(JOB) in job_ids
            answers[rowset_id] = (Fenced.IN_USE, "its job runs") if runs else (Fenced.FENCED, "its job is removed")
        else:
            text = f"its mark names {writer!r}, neither a transaction nor a job"
            answers[rowset_id] = (Fenced.UNKNOWN, text)
    return answers


def verdict(statuses: Collection[str]) -> tuple[Fenced, str]:
    """Return whether a prepared rowset may be deleted, by statuses read *after* its writer was aborted.

    They are those of the writing transaction and its parent; empty: no record is left.
    """
    for status in statuses:
        if status not in set(TxnStatus):
            return Fenced.UNKNOWN, f"the status {status!r} of its transaction is unknown; repair or remove the record"
    for status in statuses:
        if status in _COMMITTING:
            return Fenced.IN_USE, f"its transaction is {status}"
    if TxnStatus.PREPARED in statuses:
        return Fenced.IN_USE, "its transaction still runs"
    return Fenced.FENCED, "its transaction is aborted" if statuses else "its transaction left no record"


def readable(tx: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return the prepared rowsets whose writer's record can be read."""
    mark = tx.db.t.mark
    is_prepared = [tx.in_instance(mark.c.id, ids), mark.c.kind == "prepared"]
    writers = {row.id: row.owner_txn for row in tx.c.execute(select(mark.c.id, mark.c.owner_txn).where(*is_prepared))}
    return [rowset for rowset, (answer, _) in judge(tx, writers).items() if answer is not Fenced.UNKNOWN]


def end(tx: CatalogTransaction, txns: Collection[str]) -> None:
    """Free the labels of loads that were just aborted, abort their parts, and mark their records for removal."""
    if not txns:
        return
    txn = tx.t.txns
    tx.change(txn.c.parent_id, txns, txn.c.status == TxnStatus.PREPARED, status=TxnStatus.ABORTED)
    tx.change(tx.t.labels.c.txn_id, txns, active=False)
    tx.mark("txn_label", select(txn.c.id).where(tx.in_instance(txn.c.id, txns)))


def time_out(tx: CatalogTransaction) -> bool:
    """Abort loads whose time is up; return whether there may be more. One that is being ended is skipped."""
    txn = tx.t.txns
    is_running = [txn.c.instance == tx.instance, txn.c.parent_id.is_(None), txn.c.status == TxnStatus.PREPARED]
    expired = select(txn.c.id).where(*is_running, txn.c.timeout_at <= tx.db.now(tx.c)).order_by(txn.c.timeout_at)
    ids = tx.ids(expired.limit(TIMEOUTS_AT_ONCE).with_for_update(skip_locked=True))
    tx.change(txn.c.id, ids, status=TxnStatus.ABORTED)
    end(tx, ids)
    return len(ids) == TIMEOUTS_AT_ONCE


def _ids(writers: Writers, prefix: str) -> list[str]:
    """Return the ids of the writers of one kind: transactions or compactions."""
    names = {writer for writer in writers.values() if writer is not None and writer.startswith(prefix)}
    return sorted(name.removeprefix(prefix) for name in names)
