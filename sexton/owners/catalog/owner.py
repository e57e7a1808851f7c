"""The reference catalog as an owner: its tables share Sexton's database. Each method opens its own transactions."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from sqlalchemy import ColumnElement, Connection, FromClause, Text, and_, cast, exists, func, select, text, true

from sexton.database.rows import READ_ROWS, within
from sexton.kernel.errors import BadInput
from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import Cutoff, DueMark, Expansion, Fenced, Ref
from sexton.marks.policy import as_named
from sexton.owners.catalog import explain, kinds, rowsets
from sexton.owners.catalog.kinds import KINDS
from sexton.owners.catalog.records import OWN_TABLET, PARENTS, STANDING, CatalogTransaction
from sexton.owners.catalog.tables import TABLES
from sexton.owners.plugin import STATEMENT_SECONDS, OwnerContext, silent_on_error
from sexton.owners.port import (
    COUNT_SECONDS,
    FindRefs,
    Heartbeat,
    LiveParts,
    Owner,
    RecordText,
    Verify,
    nothing_to_verify,
)

FENCED_KIND = "prepared"
"""The kind whose marks a transaction of the catalog may still commit."""
IN_MEMORY = {
    **{kind: (records.c.id, KINDS[kind].live) for kind, records in reversed(PARENTS.items())},
    "tablet": (TABLES.tablets.c.id, STANDING),
    **dict.fromkeys(
        ("rowset", "segment"),
        (TABLES.rowsets.c.id, and_(KINDS["dropped"].live, exists().where(OWN_TABLET, STANDING))),
    ),
}
"""The kinds of records that a front end should know → their rows' ids, and the condition that it should know one."""
SILENCE = "the catalog's tables cannot be read or written"


class CatalogOwner(Owner):
    """The owner of all instances of the catalog. Call ``tables.create`` once before."""

    def __init__(self, context: OwnerContext) -> None:
        self._db = context.db

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, Cutoff], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        """Mark the tablets of parents that are due."""
        for kind in PARENTS:
            after = ("", "") if kind in cutoffs else None
            while after is not None:
                heartbeat()
                with self._write(instance) as tx:
                    verify(tx.c)
                    after = kinds.mark_tablets(tx, kind, cutoffs[kind], after)

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return that tablets are marked under each kind of parent."""
        del instance
        return {"tablet": tuple(PARENTS)}

    def abort_expired(self, instance: str, heartbeat: Heartbeat) -> None:
        """Abort loads whose time is up."""
        more = True
        while more:
            heartbeat()
            with self._write(instance) as tx:
                more = rowsets.time_out(tx)
        with self._write(instance) as tx:
            kinds.forget_versions(tx)

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        """Return the files of marks; those of other kinds than the catalog's name their own.

        Only rowsets that a load may still commit are fenced. An undrop fails once a mark is claimed, and the commit of
        a load removes the marks of its orphans, or fails because one is claimed.
        """
        expansions = {mark.ref: as_named(mark, fence=False) for mark in marks if mark.kind not in KINDS}
        for kind, kind_marks in _by_kind(marks):
            heartbeat()
            with self._read(instance) as tx:
                refs_above = kinds.ancestors(tx, kind, [mark.id for mark in kind_marks])
                for ref, expansion in KINDS[kind].expand(tx, kind_marks).items():
                    fence = expansion.fence and kind == FENCED_KIND
                    expansions[ref] = expansion._replace(above=refs_above.get(ref.id, ()), fence=fence)
        if orphans := [mark for mark in marks if mark.etags]:
            heartbeat()
            with self._read(instance) as tx:
                above = kinds.ancestors_of_keys(tx, [key for mark in orphans for key in mark.keys or ()])
            for mark in orphans:  # a hold on its tablet, or on an ancestor, applies to an orphan
                expansions[mark.ref] = expansions[mark.ref]._replace(above=above.get((mark.keys or ("",))[0], ()))
        return expansions

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Abort the writers of prepared rowsets, in batches, then read their states.

        A rowset that was committed in between has no mark, and is not in the result.
        """
        del batch  # two rounds that fence at the same time get the same answers
        answers: dict[Ref, tuple[Fenced, str]] = {}
        ids = [mark.id for mark in marks]
        for start in range(0, len(ids), rowsets.FENCE_BATCH):
            heartbeat()
            page = ids[start : start + rowsets.FENCE_BATCH]
            with self._write(instance) as tx:
                rowsets.abort(tx, rowsets.fenced(tx, page))
            with self._read(instance) as tx:  # a new transaction, which sees only committed states
                page_answers = rowsets.judge(tx, rowsets.fenced(tx, page))
            answers.update({Ref(FENCED_KIND, rowset_id): answer for rowset_id, answer in page_answers.items()})
        return answers

    def keeps_records(self, instance: str) -> bool:
        """Return True: rowsets, tablets and their parents are records of the catalog."""
        return True

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        """Remove the catalog's records of marks whose files are deleted; missing records are ignored."""
        ids: dict[str, list[str]] = defaultdict(list)
        with self._write(instance) as tx:
            for ref in find_refs(tx.c):
                ids[ref.kind].append(ref.id)
            for kind in KINDS:
                if kind in ids:
                    kinds.forget(tx, kind, ids[kind])

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        """Return the marks of visible objects, and of rowsets whose versions no visible rowset holds."""
        live_refs: set[Ref] = set()
        for kind, kind_marks in _by_kind(marks):
            heartbeat()
            with self._read(instance) as tx:
                live_refs.update(Ref(kind, id_) for id_ in kinds.live(tx, kind, [mark.id for mark in kind_marks]))
        if others := [mark for mark in marks if mark.kind not in KINDS or mark.kind == "prepared"]:
            heartbeat()
            with self._read(instance) as tx:
                live_refs |= rowsets.named_by(tx, others)
        return dict.fromkeys(live_refs, "")

    def live_objects(self, instance: str) -> int | None:
        """Return how many files the visible rowsets have, by one statement; ``OwnerSilent``: it took too long."""
        with self._read(instance) as tx:
            self._db.limit_statements(tx.c, COUNT_SECONDS)
            # It reads whole tables; a planner that assumes empty tables would read them once for each row.
            tx.c.execute(text("SET LOCAL enable_nestloop = off"))
            return rowsets.count_live(tx)

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return the marks whose transaction's status, or whose schema, can be read again."""
        resolvable: set[Ref] = set()
        with self._read(instance) as tx:
            for kind, kind_marks in _by_kind(marks):
                ids = KINDS[kind].resolvable(tx, [mark.id for mark in kind_marks])
                resolvable.update(Ref(kind, id_) for id_ in ids)
        return resolvable

    def live_as_of(self, instance: str) -> int | None:
        """Return None: the records are true when they are read."""

    def live_parts(self, instance: str, moment: str, connection: Connection, rows: int) -> LiveParts:
        """Return ranges of rowsets."""
        return LiveParts(rowsets.live_parts(CatalogTransaction(self._db, connection, instance), rows))

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        """Yield the files of the rowsets in a part."""
        with self._snapshot(instance, moment) as tx:
            yield from rowsets.read_live(tx, part)

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        """Return the files of these rowsets (``rowset/ID``) now."""
        with self._read(instance) as tx:
            return rowsets.live_entries(tx, records)

    def contradictions(self, instance: str) -> Iterator[RecordText]:
        """Yield references to missing records, and wrong counters."""
        with self._snapshot(instance) as tx:
            yield from explain.contradictions(tx)

    def record_ids(self, instance: str, kind: str, after: str, until: str) -> Iterator[str]:
        """Yield the ids of a kind that a front end should know: it need not know what was dropped.

        The id of a segment is ``ROWSET,NUMBER``: a comma is before every character of an id.
        """
        if kind not in IN_MEMORY:
            raise BadInput(f"the catalog has no records of kind {kind!r}; use one of: {', '.join(IN_MEMORY)}")
        column, is_live = IN_MEMORY[kind]
        id_: ColumnElement[str] = column
        rows: FromClause = column.table
        in_range = within(column, after, until)
        if kind == "segment":
            numbers = func.generate_series(0, TABLES.rowsets.c.segments - 1).table_valued("number").render_derived()
            id_, rows = (column + "," + cast(numbers.c.number, Text)).collate("C"), rows.join(numbers, true())
            first, last = after.partition(",")[0], until.partition(",")[0]  # a range of the index, too
            in_range = and_(column >= first, within(column, "", last), within(id_, after, until))
        of_instance = column.table.c.instance == instance
        ids = select(id_).select_from(rows).where(of_instance, is_live, in_range).order_by(id_)
        with self._snapshot(instance) as tx:
            yield from tx.c.execution_options(yield_per=READ_ROWS).execute(ids).scalars()

    def refs_of_keys(self, instance: str, keys: Collection[str]) -> Collection[Ref]:
        """Return the marks that delete the files with these keys, or whose drop will mark the files."""
        with self._read(instance) as tx:
            return explain.refs_of_keys(tx, keys)

    def live_texts(self, instance: str, keys: Collection[str]) -> Iterator[str]:
        """Yield the visible rowsets that these keys name."""
        with self._read(instance) as tx:
            yield from explain.live_texts(tx, keys)

    def records_with(self, instance: str, ids: Collection[str]) -> Iterator[RecordText]:
        """Yield the records with one of these ids."""
        with self._read(instance) as tx:
            yield from explain.records_with(tx, ids)

    @contextmanager
    def _read(self, instance: str) -> Iterator[CatalogTransaction]:
        with silent_on_error(SILENCE), self._db.read() as c:
            yield CatalogTransaction(self._db, c, instance)

    @contextmanager
    def _snapshot(self, instance: str, moment: str = "") -> Iterator[CatalogTransaction]:
        with silent_on_error(SILENCE), self._db.snapshot(moment) as c:
            self._db.limit_statements(c, STATEMENT_SECONDS)
            yield CatalogTransaction(self._db, c, instance)

    @contextmanager
    def _write(self, instance: str) -> Iterator[CatalogTransaction]:
        with silent_on_error(SILENCE), self._db.write() as c:
            yield CatalogTransaction(self._db, c, instance)


def _by_kind(marks: Sequence[DueMark]) -> Iterator[tuple[str, Sequence[DueMark]]]:
    marks_by_kind: dict[str, list[DueMark]] = defaultdict(list)
    for mark in marks:
        marks_by_kind[mark.kind].append(mark)
    return ((kind, kind_marks) for kind, kind_marks in marks_by_kind.items() if kind in KINDS)
