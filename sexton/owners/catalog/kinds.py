"""The catalog's kinds of marks, as a table: what each deletes, removes and waits for, and what of it is live."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from sqlalchemy import Column, ColumnElement, Table, and_, exists, literal, select

from sexton.contract import MAX_BYTES
from sexton.database.rows import sum_of, within
from sexton.kernel.errors import BadInput
from sexton.marks.model import Cutoff, DueMark, Expansion, Place, Reason, Ref
from sexton.marks.sql.rows import is_due
from sexton.owners.catalog import rowsets
from sexton.owners.catalog.model import FINISHED, ROOT, RowsetState, parse, tablet_prefix
from sexton.owners.catalog.records import PARENTS, STANDING, CatalogTransaction, parent_column
from sexton.owners.catalog.tables import TABLES

ROWSET_KINDS = ("compacted", "dropped", "prepared")
"""Kinds of marks that a rowset may have."""
BELOW: Mapping[Table, Sequence[Column[str]]] = {
    TABLES.tables: [table.c.table_id for table in (TABLES.tablets, TABLES.indexes, TABLES.partitions, TABLES.versions)],
    TABLES.indexes: [TABLES.tablets.c.index_id, TABLES.schemas.c.index_id],
    TABLES.partitions: [TABLES.tablets.c.partition_id, TABLES.versions.c.partition_id],
    TABLES.tablets: [table.c.tablet_id for table in (TABLES.rowsets, TABLES.jobs, TABLES.stats)],
    TABLES.txns: [TABLES.txns.c.parent_id, TABLES.labels.c.txn_id],
}
"""Records → the columns of other records that name them; those are removed with them."""
PARENTS_AT_ONCE = 1_000
"""Parents whose marks one transaction locks at most."""
TABLETS_AT_ONCE = 100_000
"""Tablets that one transaction marks at most: 3 s on PostgreSQL (measured)."""
WAITS = "its children"


def _none(_tx: CatalogTransaction, _ids: Sequence[str]) -> Collection[str]:
    return ()


class Kind(NamedTuple):
    """A kind of marks. Functions take many marks at once, and need few statements for all."""

    records: Table
    removable: ColumnElement[bool]
    """The condition that a record may be removed: it was dropped, replaced or aborted, or has ended."""
    live: ColumnElement[bool]
    """The condition that a record is live, whatever was marked."""
    expand: Callable[[CatalogTransaction, Sequence[DueMark]], Mapping[Ref, Expansion]]
    """Returns the files that the marks stand for."""
    also_live: Callable[[CatalogTransaction, Sequence[str]], Collection[str]] = _none
    """Returns which of the ids are live for another reason."""
    resolvable: Callable[[CatalogTransaction, Sequence[str]], Collection[str]] = _none
    """Returns those ids, quarantined for an unreadable record, whose record can be read now."""


def _wait(kind: str, tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Let a parent wait until no mark names it, and each of its tablets was marked; then only its records are deleted.

    A tablet whose mark was discarded has a record still, which is removed with the parent's; its files stay.
    """
    mark, parent_id, ids = tx.db.t.mark, parent_column(kind), [due_mark.id for due_mark in marks]
    with_marks = select(mark.c.parent_id).where(tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == kind)
    blocked = set(tx.ids(with_marks.distinct()))
    was_discarded = tx.has_mark(tx.db.t.mark_history, "tablet", tx.t.tablets.c.id)
    others = [id_ for id_ in ids if id_ not in blocked]
    with_tablets = select(parent_id).where(tx.in_instance(parent_id, others), ~was_discarded)
    blocked |= set(tx.ids(with_tablets.distinct()))
    return {due_mark.ref: Expansion(waits=WAITS if due_mark.id in blocked else "") for due_mark in marks}


def _expand_tablets(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return each tablet's prefix in every vault that a rowset of it (in any state) or the mark of a rowset names."""
    rowset, mark, ids = tx.t.rowsets, tx.db.t.mark, [due_mark.id for due_mark in marks]
    of_rowsets = select(rowset.c.tablet_id, rowset.c.vault).where(tx.in_instance(rowset.c.tablet_id, ids))
    is_child = [tx.in_instance(mark.c.parent_id, ids), mark.c.parent_kind == "tablet", mark.c.vault.is_not(None)]
    of_marks = select(mark.c.parent_id, mark.c.vault).where(*is_child)
    vaults: dict[str, list[str]] = defaultdict(list)
    for tablet, vault in tx.c.execute(of_rowsets.union(of_marks)):
        vaults[tablet].append(vault)
    expansions = {}
    for due_mark in marks:
        try:
            prefix = tablet_prefix(due_mark.id)
        except BadInput as e:
            expansions[due_mark.ref] = Expansion(problem=(Reason.UNEXPANDED, str(e)))
        else:
            places = tuple(Place(vault=v, prefix=prefix) for v in sorted(vaults[due_mark.id]))
            expansions[due_mark.ref] = Expansion(places=places, absorbs=True)
    return expansions


def _expand_prepared(_tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the prefix in each mark, which was written before the first file, so it cannot name the files."""
    expansions = {}
    for mark in marks:
        if mark.vault is None or mark.prefix is None:
            problem = Reason.UNEXPANDED, "a prepared mark must name a vault and a prefix"
            expansions[mark.ref] = Expansion(problem=problem)
        else:
            place = Place(vault=mark.vault, prefix=mark.prefix)
            expansions[mark.ref] = Expansion(places=(place,), fence=not mark.in_second_pass)
    return expansions


def _in_state(*states: RowsetState) -> ColumnElement[bool]:
    return TABLES.rowsets.c.state.in_(states)


def _parent_is_live(kind: str) -> ColumnElement[bool]:
    """Return the condition that a table, index or partition was not dropped, nor the table above it."""
    own, table = PARENTS[kind].c, TABLES.tables.alias("above").c
    if kind == "table":
        return ~own.dropped
    return and_(~own.dropped, ~exists().where(table.id == own.table_id, table.instance == own.instance, table.dropped))


_VISIBLE, _REPLACED = _in_state(RowsetState.VISIBLE), _in_state(RowsetState.COMPACTED, RowsetState.DROPPED)
_UNFINISHED, _HAS_ENDED = _in_state(RowsetState.PREPARED, RowsetState.TMP), TABLES.txns.c.status.in_(FINISHED)
KINDS: Mapping[str, Kind] = {
    # Prefixes, in every vault, with the marks of their rowsets.
    "tablet": Kind(TABLES.tablets, ~STANDING, STANDING, _expand_tablets),
    # Exact file names, while visible rowsets hold their versions.
    "compacted": Kind(
        TABLES.rowsets, _REPLACED, _VISIBLE, rowsets.expand, rowsets.uncovered, resolvable=rowsets.resolvable
    ),
    # Exact file names, after the rowsets that were compacted into them.
    "dropped": Kind(TABLES.rowsets, _REPLACED, _VISIBLE, rowsets.expand_dropped, resolvable=rowsets.resolvable),
    # Everything under their prefix, once the load or compaction that never ended is aborted.
    "prepared": Kind(TABLES.rowsets, _UNFINISHED, _VISIBLE, _expand_prepared, resolvable=rowsets.readable),
    # Records alone: after their tablets, which are marked when the drop is due.
    **{
        kind: Kind(PARENTS[kind], PARENTS[kind].c.dropped, _parent_is_live(kind), partial(_wait, kind))
        for kind in ("index", "partition", "table")
    },
    # Records alone: a load that has ended has no files.
    "txn_label": Kind(TABLES.txns, _HAS_ENDED, ~_HAS_ENDED, lambda _tx, marks: {m.ref: Expansion() for m in marks}),
}
"""Name → kind, in the order in which records are removed."""


def forget(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> None:
    """Remove the records of marks whose files are deleted; never records of what was not dropped or aborted."""
    records = KINDS[kind].records
    if kind in ROWSET_KINDS:
        tx.lock_rowsets(records.c.id, ids)
    stay = select(records.c.id).where(tx.in_instance(records.c.id, ids), ~KINDS[kind].removable)
    _remove(tx, records, sorted(set(ids) - set(tx.ids(stay))), is_absorbed=kind == "tablet")


def _remove(tx: CatalogTransaction, records: Table, ids: Sequence[str], *, is_absorbed: bool = False) -> None:
    """Remove records with those below them.

    A rowset below a parent whose mark is not absorbed stays: its load, which may run still, must find it or fail.
    """
    if not ids:
        return
    if records is tx.t.tablets:
        tx.lock_rowsets(tx.t.rowsets.c.tablet_id, ids)
    for column in BELOW.get(records, ()):
        if column.table in BELOW:
            below = select(column.table.c.id).where(tx.in_instance(column, ids))
            _remove(tx, column.table, tx.ids(below))
        elif column.table is tx.t.rowsets and not is_absorbed:
            tx.remove(column, ids, *(~tx.has_mark(tx.db.t.mark, kind, column.table.c.id) for kind in ROWSET_KINDS))
        else:
            tx.remove(column, ids)
    tx.remove(records.c.id, ids)


def live(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> set[str]:
    """Return which of the ids are live, whatever was marked."""
    records = KINDS[kind].records
    of_records = select(records.c.id).where(tx.in_instance(records.c.id, ids), KINDS[kind].live)
    return {*tx.ids(of_records), *KINDS[kind].also_live(tx, ids)}


def ancestors(tx: CatalogTransaction, kind: str, ids: Sequence[str]) -> Mapping[str, tuple[Ref, ...]]:
    """Return rowset or tablet id → its tablet and the tablet's parents, as far as they have records, marked or not.

    A hold on one of them blocks deletion. Marks of other kinds have none here: the result is empty.
    """
    rowset, tablet = tx.t.rowsets, tx.t.tablets
    tablet_of = {id_: id_ for id_ in ids} if kind == "tablet" else {}
    if kind in ROWSET_KINDS:
        rows = tx.c.execute(select(rowset.c.id, rowset.c.tablet_id).where(tx.in_instance(rowset.c.id, ids)))
        tablet_of = {row.id: row.tablet_id for row in rows}
    above: dict[str, tuple[Ref, ...]] = defaultdict(tuple)
    if not tablet_of:
        return above
    columns = [parent_column(parent) for parent in PARENTS]
    of_tablets = tx.in_instance(tablet.c.id, set(tablet_of.values()))
    parents = {row[0]: row[1:] for row in tx.c.execute(select(tablet.c.id, *columns).where(of_tablets))}
    for id_, tablet_id in tablet_of.items():
        above[id_] = (Ref("tablet", tablet_id), *map(Ref, PARENTS, parents.get(tablet_id, ())))
    return above


def ancestors_of_keys(tx: CatalogTransaction, keys: Sequence[str]) -> Mapping[str, tuple[Ref, ...]]:
    """Return key → the tablet and the tablet's parents, of those keys that name a file."""
    tablets = {key: file.tablet for key in keys if (file := parse(key)) is not None}
    above = ancestors(tx, "tablet", list(tablets.values()))
    return {key: above[tablet] for key, tablet in tablets.items()}


def mark_tablets(
    tx: CatalogTransaction, kind: str, cutoff: Cutoff, after: tuple[str, str] = ("", "")
) -> tuple[str, str] | None:
    """Mark the next tablets of parents that are due by one statement, but for those that are marked or were discarded.

    A parent that an undrop or a claim has locked is left for the next round. Return where to continue, as ``after``: a
    parent, and a tablet of the parents behind it; None: all are marked.
    """
    mark, tablet, rowset = tx.db.t.mark, tx.t.tablets, tx.t.rowsets
    due = (
        select(mark.c.id)
        .where(mark.c.instance == tx.instance, mark.c.kind == kind, mark.c.state == "MARKED")
        .where(mark.c.quarantined_reason.is_(None), is_due(mark, cutoff), mark.c.id > after[0])
        .order_by(mark.c.id)
        .limit(PARENTS_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    parents = tx.ids(due)
    if not parents:
        return None
    parent, parent_id = PARENTS[kind], parent_column(kind)
    is_dropped = exists().where(parent.c.id == parent_id, parent.c.instance == tablet.c.instance, parent.c.dropped)
    is_next = [tx.in_instance(parent_id, parents), is_dropped, tablet.c.id > after[1]]
    ends = select(tablet.c.id).where(*is_next).order_by(tablet.c.id).offset(TABLETS_AT_ONCE - 1).limit(2)
    page_ends = tx.ids(ends)
    last = page_ends[0] if len(page_ends) == 2 else ""
    is_visible = [rowset.c.tablet_id == tablet.c.id, rowset.c.instance == tablet.c.instance, _VISIBLE]
    size = select(sum_of(rowset.c.bytes, MAX_BYTES)).where(*is_visible).scalar_subquery()
    tablets = select(
        tablet.c.id,
        literal(kind).label("parent_kind"),
        parent_id.label("parent_id"),
        (ROOT + tablet.c.id + "/").label("prefix"),
        size.label("bytes"),
    ).where(*is_next, within(tablet.c.id, "", last))
    if kind == "table":  # a tablet of an index or a partition that is marked is deleted with that mark
        tablets = tablets.where(*(~tx.has_mark(mark, part, parent_column(part)) for part in ("index", "partition")))
    tx.mark("tablet", tablets)
    return (after[0], last) if last else (parents[-1], "")


def forget_versions(tx: CatalogTransaction) -> None:
    """Remove partition versions of tables without records: a load wrote them late, and they have no files."""
    version, table, tablet = tx.t.versions, tx.t.tables, tx.t.tablets
    has_table = exists().where(table.c.instance == tx.instance, table.c.id == version.c.table_id)
    has_tablet = exists().where(tablet.c.instance == tx.instance, tablet.c.table_id == version.c.table_id)
    tx.c.execute(version.delete().where(version.c.instance == tx.instance, ~has_table, ~has_tablet))
