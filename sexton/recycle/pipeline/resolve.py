"""Resolve due marks to the exact files that they will delete, store these before the claim, and check them again.

The owner answers which marks are live, which files they stand for, and whether it still writes them: it fences these
before anything is listed. A mark that cannot be resolved is kept or quarantined with a reason. This step
decides no deletion: the claim does.

The ``drop_`` methods check a resolved chunk again, as late as possible; marks that are kept leave it. Before a claim:
vaults and liveness. Before a second pass, which claims nothing: keepers too.
"""

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import takewhile

from sexton.kernel.crash_points import reached
from sexton.kernel.errors import GuardBusy
from sexton.marks.kept import IN_USE, OWNER_BUSY, KeepReason, Kept, by_live, by_owner_silence, by_vault
from sexton.marks.model import (
    CHUNK_MARKS,
    Candidate,
    DueMark,
    Expansion,
    Fenced,
    File,
    Place,
    Reason,
    Ref,
    Unresolvable,
)
from sexton.marks.policy import Unplaced, known_places, places
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.pacing.policy import Patience
from sexton.recycle.pipeline.active_lease import BatchWork
from sexton.recycle.pipeline.listing import GIVEN_UP, FirstPages, Lister, pages_of
from sexton.recycle.pipeline.model import Chunk
from sexton.recycle.pipeline.parts import Stores
from sexton.storage.port import BAD_REPLY, UNREACHABLE, Throttled, UnknownVault, VaultFault, Vaults

CHUNK_FILES = 5_000
"""A chunk with this many files is claimed, even if it could hold more marks."""
NO_EXPANSION = Expansion()
STORE_FILES = 5_000
"""Files stored by one statement."""
MOST_UNANSWERED = 3
"""So many prefixes of a vault may be unlistable in a range while its marker can be read; each costs a time-out."""


class Resolver:
    """Resolves and rechecks marks for one worker."""

    def __init__(self, stores: Stores, vaults: Vaults, owner: Owner, listings: int) -> None:
        """``listings``: prefixes whose first page is requested at the same time."""
        self._stores = stores
        self._vaults = vaults
        self._owner = owner
        self._lister = Lister(vaults, listings)

    def resolve(
        self,
        work: BatchWork,
        due: Sequence[DueMark],
        files_after: int = 0,
        *,
        claimed: bool = False,
    ) -> Chunk:
        """Store the files of marks, up to a chunk's worth; ``chunk.seen`` is the number of marks it covers.

        ``files_after``: the number of the last file that this range stored. ``claimed``: the marks are claimed already,
        and this is their second pass, so no owner is asked to fence them.
        """
        chunk = Chunk(files_after)
        # All of one kind: an owner that cannot read the records of one kind answers for the others.
        marks: Sequence[DueMark] = list(takewhile(lambda mark: mark.kind == due[0].kind, due))
        try:
            marks, expansions, keep_reasons = self._ask_owner(work, chunk, marks, claimed=claimed)
        except OwnerSilent as e:
            chunk.seen = len(marks)
            chunk.kept[by_owner_silence(e)] = len(marks)
            return chunk
        quarantined = chunk.quarantined
        skipped = keep_reasons.keys() | quarantined
        listings = self._lister.list_ahead(work.instance, work.active_lease, marks, expansions, skipped)
        for mark, first_pages in listings:
            chunk.seen += 1
            work.active_lease.keep_alive()
            if mark.ref in keep_reasons:
                chunk.kept[keep_reasons[mark.ref]] += 1
            elif mark.ref not in quarantined:
                self._resolve_mark(work, chunk, mark, expansions.get(mark.ref), first_pages)
            if chunk.files >= CHUNK_FILES:
                break
        self._store_files(work, chunk)
        try:
            self._stores.quarantine.quarantine(work.token, chunk.unresolvable)
        except GuardBusy:
            chunk.kept[OWNER_BUSY] += len(chunk.unresolvable)
            chunk.unresolvable = []
        reached("resolve.stored")
        return chunk

    def _ask_owner(
        self, work: BatchWork, chunk: Chunk, marks: Sequence[DueMark], *, claimed: bool
    ) -> tuple[Sequence[DueMark], Mapping[Ref, Expansion], Mapping[Ref, Kept]]:
        """Ask the owner about a chunk of marks; raise ``OwnerSilent`` if it does not answer.

        Returns:
            the marks of the chunk, their expansions, and the marks that are kept because of the owner's answers.
        """
        live = self._owner.live(work.instance, marks, work.active_lease.keep_alive)
        expansions = self._owner.expand(work.instance, marks, work.active_lease.keep_alive)
        in_use: Mapping[Ref, Kept] = {}
        if not claimed:
            marks, children_of = self._limit_children(work.instance, marks, expansions)
            candidates = [m for m in marks if m.ref not in live and not expansions.get(m.ref, NO_EXPANSION).waits]
            in_use = self._fence(work, chunk, candidates, expansions, children_of)
        keep_reasons = {**in_use, **{ref: by_live(ref, rows) for ref, rows in live.items()}}
        for ref, expansion in expansions.items():
            if expansion.waits:
                keep_reasons[ref] = Kept(KeepReason.WAITS, expansion.waits)
        return marks, expansions, keep_reasons

    def _limit_children(
        self, instance: str, marks: Sequence[DueMark], expansions: Mapping[Ref, Expansion]
    ) -> tuple[Sequence[DueMark], Mapping[Ref, Sequence[DueMark]]]:
        """Return as many marks as one transaction can claim together with their children, and the children."""
        absorbing = [m.ref for m in marks if expansions.get(m.ref, NO_EXPANSION).absorbs]
        if not absorbing:
            return marks, {}
        counts = self._stores.owner_marks.count_children(instance, absorbing)
        room = CHUNK_MARKS
        for n, mark in enumerate(marks):
            room -= 1 + counts.get(mark.ref, 0)
            if room < 0:
                marks = marks[: max(1, n)]
                break
        children_of = self._stores.owner_marks.find_children(instance, [m.ref for m in marks if m.ref in counts])
        return marks, {ref: children_of.get(ref, ()) for ref in absorbing}

    def _fence(
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
        refs = dict.fromkeys([*(m.ref for m in marks), *must_be_fenced])
        candidates = [chunk.candidates[ref] for ref in refs]
        blocked: Mapping[Ref, Kept]
        try:  # to abort no writer needlessly; the claim checks again
            blocked = self._stores.claims.ask_keepers_outside_claim(work.token, candidates, chunk.files_after)
        except GuardBusy:
            blocked = dict.fromkeys(refs, OWNER_BUSY)
        reached("keepers.asked")
        spared = {child.ref for mark in marks if mark.ref in blocked for child in children_of.get(mark.ref, ())}
        to_fence = {ref: m for ref, m in must_be_fenced.items() if ref not in blocked and ref not in spared}
        keep_reasons = {**blocked, **self._fence_marks(work, chunk, to_fence)}
        return spread_to_parents(marks, children_of, keep_reasons, chunk.quarantined)

    def _fence_marks(self, work: BatchWork, chunk: Chunk, marks: Mapping[Ref, DueMark]) -> dict[Ref, Kept]:
        """Fence marks, have the owner fence them too, and unfence those it refuses; return the kept marks."""
        fenced = self._stores.owner_marks.fence(work.token, marks)
        reached("fence.written")
        # In this order: a commit that is stored later sees the fence; one that has ended before, the owner's records.
        under_way = self._stores.commits.keep_reasons(work.instance, [chunk.candidates[ref] for ref in fenced])
        reached("commits.read")
        self._owner.refresh(work.instance, work.active_lease.keep_alive)
        in_order = [marks[ref] for ref in sorted(fenced - under_way.keys())]
        answers = self._owner.fence(work.instance, work.token.batch, in_order, work.active_lease.keep_alive)
        reached("owner.fenced")
        taken_back = [ref for ref, (answer, _) in answers.items() if answer is Fenced.NOT_GARBAGE]
        refused = {ref: reason for ref, (answer, reason) in answers.items() if answer is not Fenced.FENCED}
        refused |= {ref: str(answer) for ref, answer in under_way.items()}
        self._stores.owner_marks.unfence(work.token, refused, taken_back)
        keep_reasons = {ref: under_way.get(ref, OWNER_BUSY) for ref in marks if ref not in answers}
        for ref, (answer, reason) in answers.items():
            if answer in (Fenced.IN_USE, Fenced.NOT_GARBAGE):
                keep_reasons[ref] = IN_USE
            elif answer is Fenced.UNKNOWN:
                chunk.unresolvable.append(Unresolvable(marks[ref], Reason.OWNER_CORRUPT, reason))
        return keep_reasons

    def _resolve_mark(
        self,
        work: BatchWork,
        chunk: Chunk,
        mark: DueMark,
        expansion: Expansion | None,
        first_pages: FirstPages,
    ) -> None:
        """Add the files of one mark to the chunk, or the reason why it cannot be resolved now."""
        try:
            mark_places = places(mark, expansion)
        except Unplaced as e:
            chunk.unresolvable.append(Unresolvable(mark, e.reason, str(e)))
            return
        files_before = chunk.files
        problem = self._list_patiently(work, chunk, mark, mark_places, first_pages)
        if isinstance(problem, Unresolvable):
            chunk.unresolvable.append(problem)
        elif problem is not None:
            chunk.kept[problem] += 1
        else:
            chunk.resolved.append(mark)
            chunk.vaults[mark.ref] = frozenset(place.vault for place in mark_places)
            chunk.prefixes[mark.ref] = [place for place in mark_places if place.prefix is not None]
            candidate = chunk.candidates.get(mark.ref) or candidate_of(mark.ref, expansion or NO_EXPANSION, ())
            chunk.candidates[mark.ref] = candidate._replace(
                files=chunk.files - files_before, retention_starts_at=mark.retention_starts_at, places=mark_places
            )

    def _list_patiently(
        self, work: BatchWork, chunk: Chunk, mark: DueMark, mark_places: Sequence[Place], first_pages: FirstPages
    ) -> Unresolvable | Kept | None:
        """List a mark's files, and retry while a store throttles; return why that failed, None: it did not."""
        patience, files_before, stored_before = Patience(), chunk.files, chunk.last_file
        while True:
            try:
                self._list(work, chunk, mark, mark_places, first_pages)
            except (Unplaced, UnknownVault, VaultFault) as e:
                error = e
            else:
                return None
            chunk.files = files_before
            if chunk.last_file != stored_before:  # some of the files that were listed may be rows already
                self._stores.files.drop(work.token, [mark.ref], chunk.files_after)
            chunk.unstored = [file for file in chunk.unstored if (file.kind, file.id) != mark.ref]
            if isinstance(error, Unplaced):
                return Unresolvable(mark, error.reason, str(error))
            if isinstance(error, UnknownVault):
                return Unresolvable(mark, Reason.UNKNOWN_VAULT, str(error))
            fault, was_requested_ahead, first_pages = error.reason, bool(first_pages), {}
            if isinstance(error, Throttled):
                # A listing that was requested ahead was refused some time ago: it is sent again without a wait.
                fault = "" if was_requested_ahead else work.active_lease.wait_for_store(patience, error)
            is_given_up = work.active_lease.faults.get(error.vault) in GIVEN_UP
            if fault == UNREACHABLE and not is_given_up and self._answers(work, error.vault):
                fault = BAD_REPLY  # a range waits for an UNREACHABLE one only once
            if fault:
                work.active_lease.add_fault(error.vault, fault, f"{error.detail}; met by mark {mark.kind}/{mark.id}")
                return by_vault(error.vault, fault)

    def _answers(self, work: BatchWork, vault: str) -> bool:
        """Return whether a vault answers, one of whose prefixes could not be listed: that costs its own mark only."""
        work.active_lease.unanswered[vault] += 1
        if work.active_lease.unanswered[vault] > MOST_UNANSWERED:
            return False
        try:
            work.active_lease.retry_throttled(partial(self._vaults.confirm, work.instance, vault))
        except (VaultFault, UnknownVault):
            return False
        return True

    def _list(
        self, work: BatchWork, chunk: Chunk, mark: DueMark, mark_places: Sequence[Place], first_pages: FirstPages
    ) -> None:
        shares = stated_shares(mark.bytes, mark_places)
        for place in mark_places:
            name = place.vault
            if work.active_lease.faults.get(name) in GIVEN_UP:  # a range waits for a vault only once
                raise VaultFault(name, work.active_lease.faults[name], "it accepted nothing a moment ago")
            work.active_lease.refuse_excluded(name)
            vault = self._vaults.get(work.instance, name)
            for page in pages_of(vault, mark, place, first_pages.get(place)):
                work.active_lease.keep_alive()
                chunk.unstored += [
                    File(
                        mark.kind, mark.id, name, key, size, etag, next(shares, None) if size is None else None, written
                    )
                    for key, size, etag, written in page
                ]
                chunk.files += len(page)
                if len(chunk.unstored) >= STORE_FILES:
                    self._store_files(work, chunk)

    def _store_files(self, work: BatchWork, chunk: Chunk) -> None:
        chunk.last_file = self._stores.files.store(work.token, chunk.unstored, chunk.last_file)
        chunk.unstored = []

    def keep_unverified(self, work: BatchWork, chunk: Chunk) -> None:
        """Keep marks that have files in a vault that cannot be verified now."""
        for name in sorted(frozenset().union(*chunk.vaults.values())):
            try:
                work.active_lease.refuse_excluded(name)
                work.active_lease.retry_throttled(partial(self._vaults.get, work.instance, name))
            except (VaultFault, UnknownVault) as e:
                in_vault = {ref for ref in chunk.refs if name in chunk.vaults[ref]}
                self.keep_for_fault(work, chunk, in_vault, name, e)

    def keep_for_fault(self, work: BatchWork, chunk: Chunk, refs: Set[Ref], vault: str, error: Exception) -> None:
        """Keep marks because of a vault's fault, and leave the vault alone for the rest of the range."""
        reason = str(getattr(error, "reason", Reason.UNKNOWN_VAULT))
        work.active_lease.add_fault(vault, reason, str(getattr(error, "detail", error)))
        self.keep(work, chunk, dict.fromkeys(refs, by_vault(vault, reason)))

    def keep_live(self, work: BatchWork, chunk: Chunk) -> None:
        """Keep marks that their owner lists as live: listing the files may have taken long."""
        try:
            live = self._owner.live(work.instance, chunk.resolved, work.active_lease.keep_alive)
        except OwnerSilent as e:
            self.keep(work, chunk, dict.fromkeys(chunk.refs, by_owner_silence(e)))
        else:
            self.keep(work, chunk, {ref: by_live(ref, rows) for ref, rows in live.items()})

    def keep_blocked(self, work: BatchWork, chunk: Chunk) -> None:
        """Keep marks that a keeper blocks by files of a second pass; a claim asks by itself."""
        blocked: Mapping[Ref, Kept]
        try:
            blocked = self._stores.claims.ask_keepers_outside_claim(
                work.token, chunk.resolved_candidates, chunk.files_after
            )
        except GuardBusy:
            blocked = dict.fromkeys(chunk.refs, OWNER_BUSY)
        self.keep(work, chunk, blocked)

    def keep(self, work: BatchWork, chunk: Chunk, answers: Mapping[Ref, Kept]) -> None:
        """Take marks out of the chunk, drop their files, and count the reasons."""
        if answers:
            chunk.kept.update(answers.values())
            chunk.resolved = [mark for mark in chunk.resolved if mark.ref not in answers]
            self._stores.files.drop(work.token, answers, chunk.files_after)


def stated_shares(stated: int, mark_places: Sequence[Place]) -> Iterator[int]:
    """Yield for each key of a mark its share of the bytes that the owner states for the mark. Pure.

    None, where the owner states 0, which means unknown, or where a prefix is in these bytes, too.
    """
    if stated and all(place.keys is not None for place in mark_places):
        keys = sum(len(place.keys or ()) for place in mark_places)
        yield from (stated * (n + 1) // keys - stated * n // keys for n in range(keys))


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
