"""Turn due marks into the exact files they will delete, stored before the claim.

The owner is asked what is live, what its marks stand for, and to let go of what somebody may still be writing; what
cannot be resolved is held or quarantined, and says why. Nothing here decides what may go: the claim does.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import chain

from sexton.kernel.crash_points import reached
from sexton.kernel.errors import GuardBusy
from sexton.marks.keepers import IN_USE, LIVE, OWNER_BUSY
from sexton.marks.model import (
    CHUNK_MARKS,
    ClaimFacts,
    DueMark,
    Expansion,
    Fenced,
    File,
    Place,
    Reason,
    Ref,
    Unresolvable,
    WriteToken,
)
from sexton.marks.policy import Unplaced, places
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.model import HELD_BY_OWNER, HELD_BY_VAULT
from sexton.recycle.pacing.policy import THROTTLED, Patience
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.port import Marks
from sexton.storage.model import Listed
from sexton.storage.port import UNREACHABLE, Throttled, UnknownVault, Vault, VaultFault, Vaults

CHUNK_FILES = 5_000
"""Files after which a chunk is claimed although it could hold more marks."""
STORE_FILES = 5_000
"""Files stored by one statement."""

GIVEN_UP = (UNREACHABLE, THROTTLED)
"""Faults of vaults for which a range waits once, and no more."""
First = tuple[Sequence[Listed], Iterator[Sequence[Listed]]]
"""The first page of a listing, and the rest."""


class Chunk:
    """What resolving a chunk gave."""

    def __init__(self, last: int = 0) -> None:
        """``last``: the number of the last file that is stored; those of the chunk are numbered beyond it."""
        self.first = self.last = last
        self.buffer: list[File] = []
        """Files that are listed and not stored yet."""
        self.seen = 0
        self.files = 0
        self.resolved: list[DueMark] = []
        self.vaults: dict[Ref, frozenset[str]] = {}
        self.prefixes: dict[Ref, list[Place]] = {}
        self.terms: dict[Ref, ClaimFacts] = {}
        self.held: Counter[str] = Counter()
        self.protected_bytes = 0
        """Bytes, by their owner's word, of marks that only a protection keeps."""
        self.problems: list[Unresolvable] = []

    @property
    def refs(self) -> list[Ref]:
        """Return the names of the marks whose files are stored."""
        return [m.ref for m in self.resolved]


class Resolver:
    """Resolves for one worker; prefixes are listed several at once, by a pool that all ranges of the process share."""

    def __init__(self, marks: Marks, vaults: Vaults, owner: Owner, listings: int) -> None:
        """``listings``: prefixes whose first page is asked for at the same time."""
        self._marks = marks
        self._vaults = vaults
        self._owner = owner
        self._ahead = listings
        self._pool = ThreadPoolExecutor(listings, thread_name_prefix="list")

    def resolve(
        self, token: WriteToken, holding: ActiveLease, due: Sequence[DueMark], last: int = 0, *, claimed: bool = False
    ) -> Chunk:
        """Store the files of marks, up to a chunk's worth; ``chunk.seen`` says of how many marks.

        ``last``: the number of the last file that this range stored. ``claimed``: they are ours already and looked at
        for the second time, so nobody is asked to let go.
        """
        chunk = Chunk(last)
        due = _worth(due)
        try:
            live = self._owner.live(token.instance, due, holding.prove)
            told = self._owner.expand(token.instance, due, holding.prove)
            kept: Mapping[Ref, str] = {}
            if not claimed:
                due, below = self._below(token.instance, due, told)
                wanted = [m for m in due if m.ref not in live and not (m.ref in told and told[m.ref].waits)]
                kept = self._fence(token, holding, chunk, wanted, told, below)
        except OwnerSilent as e:
            chunk.held[f"{HELD_BY_OWNER}{e}"] = chunk.seen = len(due)
            return chunk
        aside = {p.mark.ref for p in chunk.problems}
        left = {m.ref for m in due if m.ref in live or m.ref in kept or m.ref in aside}
        for mark, first in self._ahead_of(token.instance, holding, due, told, left):
            chunk.seen += 1
            holding.prove()
            if mark.ref in told and told[mark.ref].waits:
                chunk.held[told[mark.ref].waits] += 1
            elif mark.ref in live:
                chunk.held[LIVE] += 1
            elif mark.ref in kept:
                chunk.held[kept[mark.ref]] += 1
            elif mark.ref not in aside:
                self._files(token, holding, chunk, mark, told.get(mark.ref), first)
            if chunk.files >= CHUNK_FILES:
                break
        self._store(token, chunk)
        try:
            self._marks.quarantine(token, chunk.problems)
        except GuardBusy:
            chunk.held[OWNER_BUSY] += len(chunk.problems)
            chunk.problems = []
        reached("resolve.stored")
        return chunk

    def _below(
        self, instance: str, due: Sequence[DueMark], told: Mapping[Ref, Expansion]
    ) -> tuple[Sequence[DueMark], Mapping[Ref, Sequence[DueMark]]]:
        """Return as many marks as can be claimed with those below them in one transaction, and those below."""
        absorbing = [m.ref for m in due if m.ref in told and told[m.ref].absorbs]
        if not absorbing:
            return due, {}
        counts = self._marks.below_counts(instance, absorbing)
        room = CHUNK_MARKS
        for n, mark in enumerate(due):
            room -= 1 + counts.get(mark.ref, 0)
            if room < 0:
                due = due[: max(1, n)]
                break
        found = self._marks.below(instance, [m.ref for m in due if m.ref in counts])
        return due, {ref: found.get(ref, ()) for ref in absorbing}

    def _fence(
        self,
        token: WriteToken,
        holding: ActiveLease,
        chunk: Chunk,
        wanted: Sequence[DueMark],
        told: Mapping[Ref, Expansion],
        below: Mapping[Ref, Sequence[DueMark]],
    ) -> Mapping[Ref, str]:
        """Have the owner let go of what somebody may still be writing; return what is kept, and why.

        What is claimed together with a mark is asked for as well; when one of these is kept, so is the mark.
        """
        children = [child for mark in wanted for child in below.get(mark.ref, ())]
        known = {**told, **(self._owner.expand(token.instance, children, holding.prove) if children else {})}
        must = {m.ref: m for m in (*wanted, *children) if m.ref in known and known[m.ref].fence}
        for mark in (*wanted, *children):
            e = known.get(mark.ref, Expansion())
            with_it = frozenset(c.ref for c in below.get(mark.ref, ())) if e.absorbs else None
            chunk.terms[mark.ref] = ClaimFacts(0, e.fence, with_it, e.lacking, frozenset(e.above), e.versions)
        if not must:
            return {}
        holding.prove()
        held = self._held(token, [*(m.ref for m in wanted), *must], chunk)
        spared = {child.ref for m in wanted if m.ref in held for child in below.get(m.ref, ())}
        must = {ref: m for ref, m in must.items() if ref not in held and ref not in spared}
        fenced = self._marks.fence(token, must)
        answers = self._owner.fence(token.instance, token.batch, sorted(fenced), holding.prove)
        reached("owner.fenced")
        kept = {**held, **{ref: OWNER_BUSY for ref in must if ref not in answers}}
        back = {ref: why for ref, (answer, why) in answers.items() if answer is not Fenced.FENCED}
        self._marks.unfence(token, back)
        for ref, (answer, why) in answers.items():
            if answer is Fenced.IN_USE:
                kept[ref] = IN_USE
            elif answer is Fenced.UNKNOWN:
                chunk.problems.append(Unresolvable(must[ref], Reason.OWNER_CORRUPT, why))
        aside = {p.mark.ref for p in chunk.problems}
        for mark in wanted:
            for child in below.get(mark.ref, ()):
                if child.ref in kept or child.ref in aside:
                    kept.setdefault(mark.ref, kept.get(child.ref, IN_USE))
        return kept

    def _held(self, token: WriteToken, refs: Sequence[Ref], chunk: Chunk) -> dict[Ref, str]:
        """Return what a hold keeps by name: nobody who writes it is aborted for nothing. The claim asks again."""
        try:
            return dict(self._marks.held(token, refs, {r: t.above for r, t in chunk.terms.items() if t.above}))
        except GuardBusy:
            return dict.fromkeys(refs, OWNER_BUSY)

    def _ahead_of(
        self, instance: str, holding: ActiveLease, due: Sequence[DueMark], told: Mapping[Ref, Expansion], left: Set[Ref]
    ) -> Iterator[tuple[DueMark, Mapping[Place, "Future[First]"]]]:
        """Yield the marks, each with the first pages of its prefixes, which are asked for some marks ahead."""
        waiting: deque[tuple[DueMark, dict[Place, Future[First]]]] = deque()
        shut = {name for name, why in holding.faults.items() if why in GIVEN_UP}
        for mark in due:
            first: dict[Place, Future[First]] = {}
            # What cannot be placed or opened is told when its turn comes.
            with suppress(Unplaced):
                names_keys = mark.ref not in told and mark.prefix is None
                for place in () if mark.ref in left or names_keys else places(mark, told.get(mark.ref)):
                    if place.prefix is not None and place.vault not in shut:
                        try:
                            vault = self._vaults.get(instance, place.vault)
                        except (UnknownVault, VaultFault):
                            shut.add(place.vault)  # waiting for it once is enough
                        else:
                            first[place] = self._pool.submit(_first, vault, place.prefix)
            waiting.append((mark, first))
            if len(waiting) > self._ahead:
                yield waiting.popleft()
        yield from waiting

    def _files(
        self,
        token: WriteToken,
        holding: ActiveLease,
        chunk: Chunk,
        mark: DueMark,
        told: Expansion | None,
        first: Mapping[Place, Future[First]],
    ) -> None:
        """Add the exact files of one mark to the chunk; a store that asks for patience is listed again."""
        try:
            found = places(mark, told)
        except Unplaced as e:
            chunk.problems.append(Unresolvable(mark, e.reason, str(e)))
            return
        patience, before = Patience(), chunk.files
        while True:
            try:
                self._list(token, holding, chunk, mark, found, first)
                break
            except Unplaced as e:
                self._undo(token, chunk, mark, before)
                chunk.problems.append(Unresolvable(mark, e.reason, str(e)))
                return
            except UnknownVault as e:
                self._undo(token, chunk, mark, before)
                chunk.problems.append(Unresolvable(mark, Reason.UNKNOWN_VAULT, str(e)))
                return
            except VaultFault as e:
                self._undo(token, chunk, mark, before)
                reason, ahead, first = e.reason, bool(first), {}
                # What was asked ahead was refused some time ago.
                if isinstance(e, Throttled) and (ahead or not (reason := holding.bear(patience, e))):
                    continue
                holding.fault(e.vault, reason)
                chunk.held[f"{HELD_BY_VAULT}{e.vault}: {reason}"] += 1
                return
        chunk.resolved.append(mark)
        chunk.vaults[mark.ref] = frozenset(p.vault for p in found)
        chunk.prefixes[mark.ref] = [p for p in found if p.prefix is not None]
        expected = chunk.terms.get(mark.ref) or (
            ClaimFacts(lacking=told.lacking, above=frozenset(told.above), versions=told.versions)
            if told
            else ClaimFacts()
        )
        chunk.terms[mark.ref] = expected._replace(files=chunk.files - before)

    def _list(
        self,
        token: WriteToken,
        holding: ActiveLease,
        chunk: Chunk,
        mark: DueMark,
        found: Sequence[Place],
        first: Mapping[Place, Future[First]],
    ) -> None:
        for place in found:
            name = place.vault
            if holding.faults.get(name) in GIVEN_UP:  # once a range is enough to wait for it
                raise VaultFault(name, holding.faults[name], "it took nothing a moment ago")
            holding.check_vault(name)
            vault = self._vaults.get(token.instance, name)
            for page in _found(vault, mark) if place.etags else _pages(vault, place, first.get(place)):
                holding.prove()
                chunk.buffer += [File(mark.kind, mark.id, name, *found_there) for found_there in page]
                chunk.files += len(page)
                if len(chunk.buffer) >= STORE_FILES:
                    self._store(token, chunk)

    def _store(self, token: WriteToken, chunk: Chunk) -> None:
        chunk.last = self._marks.store_files(token, chunk.buffer, chunk.last)
        chunk.buffer = []

    def _undo(self, token: WriteToken, chunk: Chunk, mark: DueMark, files: int) -> None:
        """Forget what was listed of a mark."""
        chunk.files = files
        self._marks.drop_files(token, [mark.ref])
        chunk.buffer = [f for f in chunk.buffer if (f.kind, f.id) != mark.ref]


def _first(vault: Vault, prefix: str) -> First:
    """Return the first page under a prefix, and the rest."""
    pages = iter(vault.list(prefix))
    return next(pages, ()), pages


def _pages(
    vault: Vault, place: Place, first: "Future[First] | None"
) -> Iterator[Sequence[tuple[str, int | None, str]]]:
    """Yield key, bytes and ETag of the objects of a place: as listed now, or by their names alone.

    A conditional vault deletes nothing whose ETag it is not told, so there names are looked up.
    """
    if place.prefix is None and not vault.spec.conditional:
        yield [(key, None, "") for key in place.keys or ()]
        return
    pages: Iterable[Sequence[Listed]]
    if place.prefix is None:
        pages = (vault.stat(place.keys or ()),)
    elif first is None:
        pages = vault.list(place.prefix)
    else:
        page, rest = first.result()
        pages = chain((page,), rest)
    for objects in pages:
        yield [(o.key, o.bytes, o.etag) for o in objects]


def _found(vault: Vault, mark: DueMark) -> Iterator[Sequence[tuple[str, int | None, str]]]:
    """Yield the objects that a check found, where each is still that one; ``Unplaced`` where one is another by now."""
    etags = dict(zip(mark.keys or (), mark.etags, strict=True))
    there = vault.stat(mark.keys or ())
    for listed in there:
        if etags[listed.key] and listed.etag != etags[listed.key]:
            was = f"was found with ETag {etags[listed.key]} and has {listed.etag} now"
            raise Unplaced(Reason.CHANGED, f"{listed.key!r} {was}")
    if len(there) == len(etags) and (size := sum(o.bytes for o in there)) != mark.bytes:
        raise Unplaced(Reason.CHANGED, f"{there[0].key!r} was found with {mark.bytes} bytes and has {size} now")
    yield [(o.key, o.bytes, o.etag) for o in there]


def _worth(due: Sequence[DueMark]) -> Sequence[DueMark]:
    """Return the first marks that name a chunk's worth of keys, at least one mark."""
    keys = 0
    for n, mark in enumerate(due, 1):
        keys += len(mark.keys or ())
        if keys >= CHUNK_FILES:
            return due[:n]
    return due
