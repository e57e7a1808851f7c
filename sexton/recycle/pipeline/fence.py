"""Ask owners to fence marks that may still be written, and build the candidates for the claim."""

from collections.abc import Mapping, Sequence

from sexton.kernel.crash_points import reached
from sexton.kernel.errors import GuardBusy
from sexton.marks.keepers import IN_USE, OWNER_BUSY, Kept
from sexton.marks.model import Candidate, DueMark, Expansion, Fenced, Reason, Ref, Unresolvable
from sexton.marks.policy import known_places
from sexton.owners.port import Owner
from sexton.recycle.pipeline.active_lease import BatchWork
from sexton.recycle.pipeline.model import Chunk
from sexton.recycle.pipeline.sql.store import Stores

NO_EXPANSION = Expansion()


class Fencer:
    """Fences marks for one worker."""

    def __init__(self, stores: Stores, owner: Owner) -> None:
        self._stores = stores
        self._owner = owner

    def fence(
        self,
        work: BatchWork,
        chunk: Chunk,
        marks: Sequence[DueMark],
        expansions: Mapping[Ref, Expansion],
        children_of: Mapping[Ref, Sequence[DueMark]],
    ) -> Mapping[Ref, Kept]:
        """Have the owner fence marks that may still be written; return the marks that are kept, and why.

        The children that are claimed with a mark are fenced as well; if one of them is kept, its parent is kept too.
        """
        children = [child for mark in marks for child in children_of.get(mark.ref, ())]
        if children:
            of_children = self._owner.expand(work.instance, children, work.active_lease.keep_alive)
            expansions = {**expansions, **of_children}
        for mark in (*marks, *children):
            expansion = expansions.get(mark.ref, NO_EXPANSION)
            candidate = candidate_of(mark.ref, expansion, children_of.get(mark.ref, ()))
            chunk.candidates[mark.ref] = candidate._replace(places=known_places(mark, expansions.get(mark.ref)))
        must_be_fenced = {m.ref: m for m in (*marks, *children) if chunk.candidates[m.ref].must_be_fenced}
        if not must_be_fenced:
            return {}
        work.active_lease.keep_alive()
        blocked = self._blocked(work, chunk, dict.fromkeys([*(m.ref for m in marks), *must_be_fenced]))
        spared = {child.ref for mark in marks if mark.ref in blocked for child in children_of.get(mark.ref, ())}
        to_fence = {ref: m for ref, m in must_be_fenced.items() if ref not in blocked and ref not in spared}
        keep_reasons = {**blocked, **self._ask_owner(work, chunk, to_fence)}
        return spread_to_parents(marks, children_of, keep_reasons, chunk.quarantined)

    def _blocked(self, work: BatchWork, chunk: Chunk, refs: Mapping[Ref, None]) -> Mapping[Ref, Kept]:
        """Return marks that a keeper blocks already, to abort no writer needlessly; the claim checks again."""
        try:
            candidates = [chunk.candidates[ref] for ref in refs]
            return self._stores.claims.ask_keepers_outside_claim(work.token, candidates, chunk.files_after)
        except GuardBusy:
            return dict.fromkeys(refs, OWNER_BUSY)

    def _ask_owner(self, work: BatchWork, chunk: Chunk, marks: Mapping[Ref, DueMark]) -> dict[Ref, Kept]:
        """Fence marks, have the owner fence them too, and unfence those it refuses; return the kept marks."""
        fenced = self._stores.fences.fence(work.token, marks)
        in_order = [marks[ref] for ref in sorted(fenced)]
        answers = self._owner.fence(work.instance, work.token.batch, in_order, work.active_lease.keep_alive)
        reached("owner.fenced")
        taken_back = [ref for ref, (answer, _) in answers.items() if answer is Fenced.NOT_GARBAGE]
        self._stores.fences.take_back(work.token, taken_back)
        refused = {ref: reason for ref, (answer, reason) in answers.items() if answer is not Fenced.FENCED}
        self._stores.fences.unfence(work.token, refused)
        keep_reasons = {ref: OWNER_BUSY for ref in marks if ref not in answers}
        for ref, (answer, reason) in answers.items():
            if answer in (Fenced.IN_USE, Fenced.NOT_GARBAGE):
                keep_reasons[ref] = IN_USE
            elif answer is Fenced.UNKNOWN:
                chunk.unresolvable.append(Unresolvable(marks[ref], Reason.OWNER_CORRUPT, reason))
        return keep_reasons


def candidate_of(ref: Ref, expansion: Expansion, children: Sequence[DueMark]) -> Candidate:
    """Return a mark as a candidate for the claim, by its owner's answer."""
    return Candidate(
        ref,
        must_be_fenced=expansion.fence and expansion.problem is None,
        children=frozenset(child.ref for child in children) if expansion.absorbs else None,
        lacking=expansion.lacking,
        ancestors=frozenset(expansion.above),
        versions=expansion.versions,
    )


def spread_to_parents(
    marks: Sequence[DueMark],
    children_of: Mapping[Ref, Sequence[DueMark]],
    keep_reasons: Mapping[Ref, Kept],
    quarantined: set[Ref],
) -> dict[Ref, Kept]:
    """Return the marks that are kept, with the parents of kept or quarantined children. Pure."""
    spread = dict(keep_reasons)
    for mark in marks:
        for child in children_of.get(mark.ref, ()):
            if child.ref in spread or child.ref in quarantined:
                spread.setdefault(mark.ref, spread.get(child.ref, IN_USE))
    return spread
