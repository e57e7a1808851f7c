"""The steps of a round over ports alone: resolve → claim → delete → settle for one range, and the same for what
earlier rounds claimed.

Every step can run twice. Nothing here decides what may go: the claim does; and nothing is deleted but the stored files
of claimed marks.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import suppress

from sexton.control.port import Gate
from sexton.crashpoints import reached
from sexton.errors import GuardBusy
from sexton.lease.port import Leases
from sexton.marks.model import CHUNK_MARKS, DueMark, File, Hand, Problem, Reason, Ref
from sexton.marks.policy import problem
from sexton.owner.port import Owner, OwnerSilent
from sexton.recycle.model import HELD_BY_OWNER, HELD_BY_VAULT, AdoptOrder, Cursor, Opened, RangeOrder, RangeReceipt
from sexton.recycle.port import Marks
from sexton.recycle.sweep import PROOF_SECONDS, Holding, Sweeper
from sexton.storage.port import UNREACHABLE, UnknownVault, Vault, VaultFault, Vaults

ANNOUNCED_AT_ONCE = 16
"""Vaults whose markers are written at the same time."""
RANGE_OBJECTS = 100_000
"""Objects, or marks looked at, after which a range ends and the workflow hears of it."""
CHUNK_FILES = 20_000
"""Files after which a chunk is claimed although it could hold more marks."""
LAP_FILES = 8_000
"""Files claimed before their pages are deleted together: enough pages to keep the threads busy."""
STORE_FILES = 5_000
"""Files stored by one statement."""
LATE_MARKS = 200
"""Swept prefixes listed once more before they are deleted and settled."""
FIRST = Ref("", "")
OWNER_BUSY = "owner's transaction"
"""The holder named where an owner's open transaction decides about the mark this moment."""
LIVE = "live"
"""The holder named where the owner shows a mark, or anything of its files, as live."""

Pulse = Callable[[], None]
"""Called between pages; raises when the work should stop."""


class Recycler:
    """What one worker does for ranges. Safe for several ranges at once."""

    def __init__(
        self, marks: Marks, leases: Leases, gate: Gate, vaults: Vaults, owner: Owner, sweeper: Sweeper
    ) -> None:
        self._marks = marks
        self._leases = leases
        self._gate = gate
        self._vaults = vaults
        self._owner = owner
        self._sweeper = sweeper

    def announce(self, opened: Opened, pulse: Pulse) -> None:
        """Write the round into the markers of its vaults, so that an older copy of the database is found out.

        A vault that cannot be proved is left alone; the claims find it at fault as well. Several at once, and the lease
        is renewed meanwhile: a few that do not answer must not cost the others their round.
        """
        if not (opened.may_delete and opened.vaults):
            return
        with ThreadPoolExecutor(ANNOUNCED_AT_ONCE, thread_name_prefix="announce") as pool:
            waiting = {pool.submit(self._announce, opened, name) for name in opened.vaults}
            while waiting:
                done, waiting = wait(waiting, timeout=PROOF_SECONDS, return_when=FIRST_COMPLETED)
                for told in done:
                    told.result()
                pulse()
                self._leases.renew(opened.lease)

    def _announce(self, opened: Opened, vault: str) -> None:
        with suppress(VaultFault, UnknownVault):
            self._vaults.announce(opened.lease.instance, vault, opened.round, opened.lease.owner)

    def recycle(self, order: RangeOrder, attempt: int, pulse: Pulse) -> RangeReceipt:
        """Claim, delete and remove one range of due marks.

        Raises:
            LeaseLost: stop; a newer holder goes on.
            Halted: stop; an operator's stop, a list or a window keeps the instance.
            NotEnabled: the instance was set to observe.
        """
        hand, receipt = self._marks.open_batch(order, attempt)
        if receipt is not None:
            return receipt
        holding = Holding(self._leases, self._gate, order.lease, pulse)
        self._finish(hand, holding, order.upload_grace_seconds)
        claimed = self._marks.claimed_in(hand)
        scanned, objects, finished, cursor = claimed, 0, False, order.after
        held: Counter[str] = Counter()
        quarantined = 0
        while objects < RANGE_OBJECTS and not finished:
            lap: list[Ref] = []
            files = looked = 0
            while max(files, looked) < LAP_FILES:
                holding.prove()
                room = min(CHUNK_MARKS, order.limit - claimed)
                due = self._marks.due(hand.instance, order.kind, order.cutoff, cursor, room) if room > 0 else ()
                if not due:
                    finished = True
                    break
                chunk = self._resolve(hand, holding, due)
                seen = due[: chunk.seen]
                scanned += len(seen)
                cursor = Cursor(ages_from=seen[-1].ages_from, id=seen[-1].id)
                quarantined += len(chunk.problems)
                taken = self._claim(hand, holding, order.cutoff, chunk)
                held += chunk.held
                lap += taken
                claimed += len(taken)
                files += chunk.files
                looked += chunk.seen
            self._delete(hand, holding, lap, order.upload_grace_seconds)
            objects += max(files, looked)
        done = self._marks.done(hand, order.kind)
        told = RangeReceipt(
            scanned=scanned,
            claimed=claimed,
            last=cursor,
            finished=finished,
            held=dict(held),
            quarantined=quarantined,
            faults=holding.faults,
            **done._asdict(),
        )
        self._marks.close_batch(hand, told)
        return told

    def adopt(self, order: AdoptOrder, attempt: int, pulse: Pulse) -> RangeReceipt:
        """Finish what earlier rounds claimed, then look once more at prefixes whose upload grace has passed."""
        holding = Holding(self._leases, self._gate, order.lease, pulse)
        self._marks.retry_failed(order.lease.instance)
        for batch in self._marks.unfinished_batches(order.lease.instance, order.round):
            hand = self._marks.take_over(batch, order, attempt)
            self._finish(hand, holding, order.upload_grace_seconds)
            self._marks.end_batch(hand)
        hand = self._marks.open_late_batch(order, attempt)
        held: Counter[str] = Counter()
        scanned = quarantined = 0
        after = FIRST
        while late := self._marks.take_late(hand, after, LATE_MARKS):
            after = late[-1].ref
            scanned += len(late)
            self._marks.drop_files(hand, [m.ref for m in late])
            while late:
                chunk = self._resolve(hand, holding, late)
                late = late[chunk.seen :]
                quarantined += len(chunk.problems)
                self._keep_live(hand, holding, chunk)
                self._keep_held(hand, chunk)
                held += chunk.held
                self._delete(hand, holding, chunk.refs, order.upload_grace_seconds)
        self._marks.end_batch(hand)
        return RangeReceipt(
            scanned=scanned, finished=True, held=dict(held), quarantined=quarantined, faults=holding.faults
        )

    def _resolve(self, hand: Hand, holding: Holding, due: Sequence[DueMark]) -> "_Chunk":
        """Turn marks into stored files, up to a chunk's worth. What cannot be resolved is held or quarantined."""
        chunk = _Chunk()
        due = _worth(due)
        try:
            live = self._owner.live(hand.instance, due, holding.prove)
        except OwnerSilent as e:
            chunk.held[f"{HELD_BY_OWNER}{e}"] = chunk.seen = len(due)
            return chunk
        buffer: list[File] = []
        vaults: dict[str, Vault] = {}
        for mark in due:
            chunk.seen += 1
            holding.prove()
            if mark.ref in live:
                chunk.held[LIVE] += 1
                continue
            wrong = problem(mark)
            if wrong is not None:
                chunk.problems.append(Problem(mark, *wrong))
                continue
            name = str(mark.vault)
            if holding.faults.get(name) == UNREACHABLE:  # once a range is enough to wait for it
                chunk.held[f"{HELD_BY_VAULT}{name}: {UNREACHABLE}"] += 1
                continue
            try:
                holding.check_vault(name)
                if name not in vaults:
                    vaults[name] = self._vaults.get(hand.instance, name)
                for files in _files(vaults[name], holding, mark):
                    buffer += files
                    chunk.files += len(files)
                    if len(buffer) >= STORE_FILES:
                        self._marks.store_files(hand, buffer)
                        buffer = []
            except UnknownVault as e:
                chunk.problems.append(Problem(mark, Reason.UNKNOWN_VAULT, str(e)))
            except VaultFault as e:
                holding.faults[name] = e.reason
                chunk.held[f"{HELD_BY_VAULT}{e.vault}: {e.reason}"] += 1
                buffer = [f for f in buffer if (f.kind, f.id) != mark.ref]
                self._marks.drop_files(hand, [mark.ref])
            else:
                chunk.resolved.append(mark)
                chunk.vaults[mark.ref] = name
            if chunk.files >= CHUNK_FILES:
                break
        self._marks.store_files(hand, buffer)
        try:
            self._marks.quarantine(hand, chunk.problems)
        except GuardBusy:
            chunk.held[OWNER_BUSY] += len(chunk.problems)
            chunk.problems = []
        reached("resolve.stored")
        return chunk

    def _claim(self, hand: Hand, holding: Holding, cutoff: int, chunk: "_Chunk") -> list[Ref]:
        """Claim what was resolved, as far as its vault is proved this moment; return what was claimed."""
        for name in set(chunk.vaults.values()):
            try:
                holding.check_vault(name)
                self._vaults.get(hand.instance, name)
            except (VaultFault, UnknownVault) as e:
                lost = {ref for ref, vault in chunk.vaults.items() if vault == name}
                holding.faults[name] = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                self._keep(hand, chunk, lost, f"{HELD_BY_VAULT}{name}: {holding.faults[name]}")
        self._keep_live(hand, holding, chunk)
        if not chunk.resolved:
            return []
        holding.prove()
        try:
            result = self._marks.claim(hand, chunk.refs, cutoff)
        except GuardBusy:
            self._keep(hand, chunk, set(chunk.refs), OWNER_BUSY)
            return []
        if result.busy:
            chunk.held[OWNER_BUSY] += len(result.busy)
        chunk.held += Counter(result.held.values())
        return sorted(result.marks)

    def _keep_live(self, hand: Hand, holding: Holding, chunk: "_Chunk") -> None:
        """Ask the owner once more, as late as possible: listing may have taken long."""
        try:
            live = self._owner.live(hand.instance, chunk.resolved, holding.prove)
        except OwnerSilent as e:
            self._keep(hand, chunk, set(chunk.refs), f"{HELD_BY_OWNER}{e}")
        else:
            self._keep(hand, chunk, set(live), LIVE)

    def _keep_held(self, hand: Hand, chunk: "_Chunk") -> None:
        """Ask the holders about what a last look found, as the claim asked about the rest."""
        try:
            held = self._marks.held(hand, chunk.refs)
        except GuardBusy:
            self._keep(hand, chunk, set(chunk.refs), OWNER_BUSY)
            return
        for who in sorted(set(held.values())):
            self._keep(hand, chunk, {ref for ref, holder in held.items() if holder == who}, who)

    def _keep(self, hand: Hand, chunk: "_Chunk", refs: Set[Ref], holder: str) -> None:
        """Leave resolved marks alone this round, and say who keeps them."""
        if refs:
            chunk.held[holder] += len(refs)
            chunk.resolved = [m for m in chunk.resolved if m.ref not in refs]
            self._marks.drop_files(hand, refs)

    def _delete(self, hand: Hand, holding: Holding, refs: Sequence[Ref], upload_grace_seconds: int) -> None:
        """Delete the files of claimed marks and settle what became of them."""
        self._sweeper.sweep(hand, holding)
        for start in range(0, len(refs), CHUNK_MARKS):
            holding.prove()
            self._settle(hand, refs[start : start + CHUNK_MARKS], upload_grace_seconds)

    def _finish(self, hand: Hand, holding: Holding, upload_grace_seconds: int) -> None:
        """Delete and settle whatever the batch has claimed."""
        self._sweeper.sweep(hand, holding)
        after = FIRST
        while refs := self._marks.claimed_refs(hand, after, CHUNK_MARKS):
            holding.prove()
            self._settle(hand, refs, upload_grace_seconds)
            after = refs[-1]

    def _settle(self, hand: Hand, refs: Sequence[Ref], upload_grace_seconds: int) -> None:
        if refs:
            self._marks.settle(hand, refs, upload_grace_seconds)
            self._owner.forget(hand.instance, hand.batch, refs)


def _worth(due: Sequence[DueMark]) -> Sequence[DueMark]:
    """Return the first marks that name a chunk's worth of keys, at least one mark."""
    keys = 0
    for n, mark in enumerate(due, 1):
        keys += len(mark.keys or ())
        if keys >= CHUNK_FILES:
            return due[:n]
    return due


def _files(vault: Vault, holding: Holding, mark: DueMark) -> Iterable[list[File]]:
    """Yield the exact files of a mark: its keys, or what is listed under its prefix now."""
    name = vault.spec.name
    if mark.prefix is None:
        yield [File(mark.kind, mark.id, name, key, None) for key in mark.keys or ()]
        return
    for page in vault.list(mark.prefix):
        holding.prove()
        yield [File(mark.kind, mark.id, name, o.key, o.bytes, o.etag) for o in page]


class _Chunk:
    """What resolving a chunk gave."""

    def __init__(self) -> None:
        self.seen = 0
        self.files = 0
        self.resolved: list[DueMark] = []
        self.vaults: dict[Ref, str] = {}
        self.held: Counter[str] = Counter()
        self.problems: list[Problem] = []

    @property
    def refs(self) -> list[Ref]:
        """Return the names of the marks whose files are stored."""
        return [m.ref for m in self.resolved]
