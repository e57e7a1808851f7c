"""The reference catalog as an owner: its tables share Sexton's database."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence

from sqlalchemy import text

from sexton.marks.model import DueMark, Expansion, Fenced, Place, Ref
from sexton.marks.policy import as_named
from sexton.owners.catalog import ancestors, barrier, named, parents
from sexton.owners.catalog.count import live_objects
from sexton.owners.catalog.due import START, expand_parents, forget_versions, time_out
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.kinds import KINDS
from sexton.owners.catalog.reader import CatalogReader
from sexton.owners.port import COUNT_SECONDS, FindRefs, Heartbeat, Verify, nothing_to_verify

FENCED_KINDS = frozenset({"prepared"})
"""Kinds whose marks a transaction of the catalog may still commit."""


class CatalogOwner(CatalogReader):
    """The owner of all instances of the catalog. Call ``tables.create`` once before."""

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        """Mark the tablets of parents that are due."""
        for kind in parents.PARENTS:
            cursor = START if kind in cutoffs else None
            while cursor is not None:
                heartbeat()
                with self._write(instance) as tx:
                    verify(tx.c)
                    cursor = expand_parents(tx, kind, cutoffs[kind], cursor)

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return that tablets are marked under each kind of parent."""
        del instance
        return {"tablet": parents.PARENTS}

    def abort_expired(self, instance: str, heartbeat: Heartbeat) -> None:
        """Abort loads whose time is up."""
        more = True
        while more:
            heartbeat()
            with self._write(instance) as tx:
                more = time_out(tx)
        with self._write(instance) as tx:
            forget_versions(tx)

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        """Return the files of marks; those of other kinds than the catalog's name their own.

        Only rowsets that a load may still commit are fenced. An undrop fails once a mark is claimed, and the commit of
        a load removes the marks of its orphans, or fails because one is claimed.
        """
        expansions = {mark.ref: as_named(mark, fence=False) for mark in marks if mark.kind not in KINDS}
        for kind, kind_marks in _by_kind(marks):
            heartbeat()
            with self._read(instance) as tx:
                refs_above = ancestors.find(tx, kind.name, [mark.id for mark in kind_marks])
                for ref, expansion in kind.expand(tx, kind_marks).items():
                    above = (*expansion.above, *refs_above.get(ref.id, ()))
                    fence = expansion.fence and kind.name in FENCED_KINDS
                    expansions[ref] = expansion._replace(above=above, fence=fence)
        return expansions | self._expand_orphans(instance, marks, heartbeat)

    def _expand_orphans(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> dict[Ref, Expansion]:
        """Return the files of orphan marks. A hold on its tablet, or on an ancestor, applies to an orphan."""
        orphans = [mark for mark in marks if mark.etags]
        if not orphans:
            return {}
        heartbeat()
        with self._read(instance) as tx:
            refs_above = ancestors.of_keys(tx, [key for mark in orphans for key in mark.keys or ()])
        expansions: dict[Ref, Expansion] = {}
        for mark in orphans:
            above = refs_above.get((mark.keys or ("",))[0])
            if above is not None:
                place = Place(vault=mark.vault or "", keys=mark.keys, etags=mark.etags)
                expansions[mark.ref] = Expansion(places=(place,), fence=False, above=above)
        return expansions

    def fence(
        self, instance: str, batch: int, marks: Sequence[DueMark], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Abort the writers of prepared rowsets, in batches, then read their states.

        A rowset that was committed in between has no mark, and is not in the result.
        """
        del batch  # two rounds that fence at the same time get the same answers
        answers: dict[Ref, tuple[Fenced, str]] = {}
        if unsupported := {mark.kind for mark in marks} - FENCED_KINDS:
            raise ValueError(
                f"marks of kind {', '.join(sorted(unsupported))} cannot be fenced; "
                "a kind whose expansion requires a fence must be supported here"
            )
        ids = [mark.id for mark in marks]
        for start in range(0, len(ids), barrier.FENCE_BATCH):
            heartbeat()
            page = ids[start : start + barrier.FENCE_BATCH]
            with self._write(instance) as tx:
                barrier.abort(tx, barrier.fenced(tx, page))
            with self._read(instance) as tx:  # a new transaction, which sees only committed states
                page_answers = barrier.judge(tx, barrier.fenced(tx, page))
            answers.update({Ref("prepared", rowset_id): answer for rowset_id, answer in page_answers.items()})
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
            for kind in KINDS.values():
                if kind.name in ids:
                    kind.forget(tx, ids[kind.name])

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        """Return the marks of visible objects, and of rowsets whose versions no visible rowset holds."""
        live_refs: set[Ref] = set()
        for kind, kind_marks in _by_kind(marks):
            heartbeat()
            with self._read(instance) as tx:
                live_refs.update(Ref(kind.name, id_) for id_ in kind.live(tx, [mark.id for mark in kind_marks]))
        if others := [mark for mark in marks if mark.kind not in KINDS or mark.kind == "prepared"]:
            heartbeat()
            with self._read(instance) as tx:
                live_refs |= named.live(tx, others)
        return dict.fromkeys(live_refs, "")

    def live_objects(self, instance: str) -> int | None:
        """Return how many files the visible rowsets have, by one statement; ``OwnerSilent``: it took too long."""
        with self._read(instance) as tx:
            self._db.limit_statements(tx.c, COUNT_SECONDS)
            # It reads whole tables; a planner that assumes empty tables would read them once for each row.
            tx.c.execute(text("SET LOCAL enable_nestloop = off"))
            return live_objects(tx)

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return the marks whose transaction's status, or whose schema, can be read again."""
        resolvable: set[Ref] = set()
        with self._read(instance) as tx:
            for kind, kind_marks in _by_kind(marks):
                resolvable.update(Ref(kind.name, id_) for id_ in kind.resolvable(tx, [mark.id for mark in kind_marks]))
        return resolvable


def _by_kind(marks: Sequence[DueMark]) -> Iterator[tuple[CatalogKind, Sequence[DueMark]]]:
    marks_by_kind: dict[str, list[DueMark]] = defaultdict(list)
    for mark in marks:
        marks_by_kind[mark.kind].append(mark)
    return ((KINDS[name], kind_marks) for name, kind_marks in marks_by_kind.items() if name in KINDS)
