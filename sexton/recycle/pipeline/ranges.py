"""The steps of a round over ports alone: resolve → claim → delete → settle for one range, and the same for what
earlier rounds claimed.

Every step can run twice. Nothing here decides what may go: the claim does; and nothing is deleted but the stored files
of claimed marks.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence, Set
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from sexton.kernel.errors import GuardBusy
from sexton.marks.keepers import LIVE, OWNER_BUSY, PROTECTED, keeper
from sexton.marks.lease_port import Leases
from sexton.marks.model import CHUNK_MARKS, Reason, Ref, WriteToken
from sexton.operators.controls.port import Gate
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.audit.port import DeletionLog
from sexton.recycle.model import (
    HELD_BY_OWNER,
    HELD_BY_VAULT,
    AdoptOrder,
    Cursor,
    OpenedRound,
    RangeOrder,
    RangeProgress,
    RangeReceipt,
)
from sexton.recycle.pipeline.active_lease import BUSY_SECONDS, PROOF_SECONDS, ActiveLease
from sexton.recycle.pipeline.deleter import Deleter, Deletion
from sexton.recycle.pipeline.port import Marks
from sexton.recycle.pipeline.resolve import Chunk, Resolver
from sexton.recycle.pipeline.settle import Settler
from sexton.storage.port import Throttled, UnknownVault, VaultFault, Vaults

ANNOUNCE_SECONDS = 20.0
"""For so long a busy store is asked again to take a marker."""
ANNOUNCED_AT_ONCE = 16
"""Vaults whose markers are written at the same time."""
RANGE_OBJECTS = 100_000
"""Objects, or marks looked at, after which a range ends and the workflow hears of it."""
LAP_FILES = 8_000
"""Files claimed before their pages are deleted together: enough pages to keep the threads busy."""
SAY_SECONDS = 1.0
LATE_MARKS = 200
"""Swept prefixes listed once more before they are deleted and settled."""
FIRST = Ref("", "")
LISTINGS_AT_ONCE = 8

LAPS_AT_ONCE = 3
"""Laps that are claimed and not settled: one is deleted, one comes before and one after it."""

Pulse = Callable[[], None]
"""Called between pages; raises when the work should stop."""


class _ClaimedGroup(NamedTuple):
    """Marks that were claimed together; their files have numbers after ``before``, up to ``last``."""

    refs: Sequence[Ref]
    before: int
    last: int


@dataclass
class _RangeState:
    """How far a range has come."""

    scanned: int
    claimed: int
    cursor: Cursor
    held: Counter[str]
    objects: int = 0
    quarantined: int = 0
    protected_bytes: int = 0
    last: int = 0
    finished: bool = False


@dataclass
class _ProgressReporter:
    """Says now and then how far a range is, when its lease is proved anyway."""

    say: Callable[[RangeProgress], None]
    heartbeat: Pulse
    go: _RangeState | None = None
    sweep: Deletion | None = None
    holding: ActiveLease | None = None
    files: int = 0
    """The number of the last file that an earlier attempt stored."""
    said_at: float = float("-inf")

    def __call__(self) -> None:
        if self.go and self.sweep and self.holding and time.monotonic() - self.said_at >= SAY_SECONDS:
            self.said_at = time.monotonic()
            tried, files = self.sweep.tried_to, max(self.files, self.go.last)
            self.say(RangeProgress(claimed=self.go.claimed, files=files, tried=tried, faults=self.holding.faults))
        self.heartbeat()


class Recycler:
    """What one worker does for ranges. Safe for several ranges at once."""

    def __init__(
        self,
        marks: Marks,
        leases: Leases,
        gate: Gate,
        vaults: Vaults,
        owner: Owner,
        sweeps: Deleter,
        audit: DeletionLog,
        listings: int = LISTINGS_AT_ONCE,
        *,
        lap_files: int | None = None,
        range_objects: int | None = None,
    ) -> None:
        """Nothing runs yet.

        Args:
            marks: the life of marks.
            leases: who works on an instance.
            gate: what operators say.
            vaults: where files are.
            owner: whom to ask about marks.
            sweeps: where files are deleted.
            audit: where it is told.
            listings: prefixes listed at the same time (``recycle_pool_parallelism``).
            lap_files: files claimed before their pages are settled together; None: ``LAP_FILES``.
            range_objects: objects, or marks looked at, after which a range ends; None: ``RANGE_OBJECTS``.
        """
        self._resolver = Resolver(marks, vaults, owner, listings)
        self._concluder = Settler(marks, owner, audit)
        self._audit = audit
        self._marks = marks
        self._leases = leases
        self._gate = gate
        self._vaults = vaults
        self._owner = owner
        self._sweeps = sweeps
        self._lap_files, self._range_objects = lap_files, range_objects

    def announce(self, opened: OpenedRound, heartbeat: Pulse) -> dict[str, str]:
        """Write the round into the markers of its vaults, so that an older copy of the database is found out.

        Return the vaults where that could not be done, and why: the round leaves them alone. Several at once, and the
        lease is renewed meanwhile: a few that do not answer must not cost the others their round.
        """
        if not (opened.may_delete and opened.vaults):
            return {}
        over, shut = threading.Event(), dict[str, str]()
        with ThreadPoolExecutor(ANNOUNCED_AT_ONCE, thread_name_prefix="announce") as pool:
            asked = {pool.submit(self._announce, opened, name, over): name for name in opened.vaults}
            try:
                waiting = set(asked)
                while waiting:
                    done, waiting = wait(waiting, timeout=PROOF_SECONDS, return_when=FIRST_COMPLETED)
                    shut |= {asked[told]: why for told in done if (why := told.result())}
                    heartbeat()
                    self._leases.renew(opened.lease)
            finally:
                over.set()
        return shut

    def _announce(self, opened: OpenedRound, vault: str, over: threading.Event) -> str:
        """Return why the marker was not written; empty where it was. A busy store is asked again."""
        until = time.monotonic() + ANNOUNCE_SECONDS
        while True:
            try:
                self._vaults.announce(opened.lease.instance, vault, opened.round, opened.lease.owner)
            except Throttled as busy:
                if time.monotonic() > until or over.wait(busy.retry_after or BUSY_SECONDS):
                    return busy.reason
            except (VaultFault, UnknownVault) as e:
                return str(getattr(e, "reason", Reason.UNKNOWN_VAULT))
            else:
                return ""

    def recycle(
        self, order: RangeOrder, attempt: int, heartbeat: Pulse, say: Callable[[RangeProgress], None] = lambda _: None
    ) -> RangeReceipt:
        """Claim, delete and remove one range of due marks; ``say`` hears how far it is.

        Raises:
            LeaseLost: stop; a newer holder goes on.
            Halted: stop; an operator's stop, a list or a window keeps the instance.
            NotEnabled: the instance was set to observe.
        """
        token, receipt = self._marks.open_batch(order, order.attempts + attempt)
        if receipt is not None:
            return receipt
        watch = _ProgressReporter(say, heartbeat)
        holding = watch.holding = ActiveLease(self._leases, self._gate, order.lease, watch, order.shut)
        claimed = self._marks.claimed_in(token)
        go = watch.go = _RangeState(claimed, claimed, order.after, Counter())
        watch.files = self._marks.last_file(token)
        go.held += self._finish(token, holding, order.upload_grace_seconds, watch)
        with self._sweeps.begin(token, holding) as sweep:
            watch.sweep = sweep
            # What is claimed is deleted meanwhile, so that the store is busy while records are read and written.
            open_: deque[_ClaimedGroup] = deque()
            while open_ or not self._ended(go):
                if not self._ended(go) and len(open_) < LAPS_AT_ONCE:
                    open_.append(self._fill(token, holding, order, go, sweep))
                    if not sweep.tried(open_[0].last):
                        continue
                lap = open_.popleft()
                sweep.wait_for(lap.last)
                audited, grace = sweep.audited(lap.before, lap.last), order.upload_grace_seconds
                go.held += self._concluder.conclude(token, holding, lap.refs, grace, told=audited)
            sweep.finish()
        done = self._marks.done(token, order.kind)
        told = RangeReceipt(
            scanned=go.scanned,
            claimed=go.claimed,
            last=go.cursor,
            finished=go.finished,
            held=dict(go.held),
            protected_bytes=go.protected_bytes,
            quarantined=go.quarantined,
            faults=holding.faults,
            **done._asdict(),
        )
        self._marks.close_batch(token, told)
        return told

    def _ended(self, go: _RangeState) -> bool:
        """Tell whether nothing more is to be claimed in this range."""
        return go.finished or go.objects >= (self._range_objects or RANGE_OBJECTS)

    def _fill(
        self, token: WriteToken, holding: ActiveLease, order: RangeOrder, go: _RangeState, sweep: Deletion
    ) -> _ClaimedGroup:
        """Resolve and claim what is due next, a lap's worth; the sweep hears of each chunk of it."""
        lap = _ClaimedGroup([], go.last, go.last)
        files = looked = 0
        while max(files, looked) < (self._lap_files or LAP_FILES):
            holding.prove()
            room = min(CHUNK_MARKS, order.limit - go.claimed)
            due = self._marks.due(token.instance, order.kind, order.cutoff, go.cursor, room) if room > 0 else ()
            if not due:
                go.finished = True
                break
            chunk = self._resolver.resolve(token, holding, due, go.last)
            taken = self._claim(token, holding, order, chunk)
            go.last = chunk.last
            sweep.claimed(chunk.last)
            seen = due[: chunk.seen]
            go.cursor = Cursor(ages_from=seen[-1].ages_from, id=seen[-1].id)
            go.scanned += len(seen)
            go.quarantined += len(chunk.problems)
            go.claimed += len(taken)
            go.held += chunk.held
            go.protected_bytes += chunk.protected_bytes
            lap = _ClaimedGroup([*lap.refs, *taken], lap.before, chunk.last)
            files += chunk.files
            looked += chunk.seen
        go.objects += max(files, looked)
        return lap

    def adopt(self, order: AdoptOrder, attempt: int, heartbeat: Pulse) -> RangeReceipt:
        """Finish what earlier rounds claimed, then look once more at prefixes whose upload grace has passed."""
        holding = ActiveLease(self._leases, self._gate, order.lease, heartbeat, order.shut)
        self._marks.retry_failed(order.lease.instance)
        held = self._ask_owner(order, holding)
        for batch in self._marks.unfinished_batches(order.lease.instance, order.round):
            token = self._marks.take_over(batch, order, attempt)
            held += self._finish(token, holding, order.upload_grace_seconds)
            self._marks.end_batch(token)
        token = self._marks.open_late_batch(order, attempt)
        scanned = quarantined = 0
        after = FIRST
        while late := self._marks.take_late(token, after, LATE_MARKS):
            after = late[-1].ref
            scanned += len(late)
            self._marks.drop_files(token, [m.ref for m in late])
            while late:
                chunk = self._resolver.resolve(token, holding, late, claimed=True)
                late = late[chunk.seen :]
                quarantined += len(chunk.problems)
                self._keep_live(token, holding, chunk)
                self._keep_held(token, chunk)
                held += chunk.held
                self._abort_uploads(token, holding, chunk)
                self._marks.note_lacking(token, {r: why for r in chunk.refs if (why := chunk.terms[r].lacking)})
                held += self._delete(token, holding, chunk.refs, order.upload_grace_seconds)
        self._marks.end_batch(token)
        return RangeReceipt(
            scanned=scanned, finished=True, held=dict(held), quarantined=quarantined, faults=holding.faults
        )

    def forget_audit(self, instance: str, now: int, heartbeat: Pulse) -> None:
        """Remove what the audit need not know any more; what cannot be removed now is tried again another day."""
        self._audit.forget(instance, now, heartbeat)

    def _ask_owner(self, order: AdoptOrder, holding: ActiveLease) -> Counter[str]:
        """Let the owner bring what is garbage by now, and say which of the marks set aside for it are in order."""
        instance = order.lease.instance
        holding.prove()
        try:
            self._marks.release_fenced(instance)
            for aside in self._marks.set_aside_for_owner(instance):
                holding.prove()
                self._marks.free(instance, self._owner.mended(instance, aside))
            self._owner.time_out(instance, holding.prove)
            self._marks.take_back(instance, self._owner.grows(instance), order.cutoffs)
            self._owner.due(instance, order.cutoffs, holding.prove)
        except OwnerSilent as e:
            return Counter({f"{HELD_BY_OWNER}{e}": 1})
        except GuardBusy:
            return Counter({OWNER_BUSY: 1})
        return Counter()

    def _claim(self, token: WriteToken, holding: ActiveLease, order: RangeOrder, chunk: Chunk) -> list[Ref]:
        """Claim what was resolved, as far as its vault is proved this moment; return what was claimed."""
        for name in sorted(frozenset().union(*chunk.vaults.values())):
            try:
                holding.check_vault(name)
                holding.patiently(partial(self._vaults.get, token.instance, name))
            except (VaultFault, UnknownVault) as e:
                lost = {ref for ref in chunk.refs if name in chunk.vaults[ref]}
                holding.fault(name, getattr(e, "reason", Reason.UNKNOWN_VAULT))
                self._keep(token, chunk, lost, f"{HELD_BY_VAULT}{name}: {holding.faults[name]}")
        self._keep_live(token, holding, chunk)
        if not chunk.resolved:
            return []
        holding.prove()
        try:
            result = self._marks.claim(token, chunk.refs, order.cutoff, chunk.terms, order.allowance, chunk.first)
        except GuardBusy:
            self._keep(token, chunk, set(chunk.refs), OWNER_BUSY)
            return []
        if result.busy:
            chunk.held[OWNER_BUSY] += len(result.busy)
        chunk.held += Counter(result.held.values())
        kept = {ref for ref, who in result.held.items() if keeper(who) in PROTECTED}
        chunk.protected_bytes += sum(m.bytes or 0 for m in chunk.resolved if m.ref in kept)
        return sorted(result.marks)

    def _keep_live(self, token: WriteToken, holding: ActiveLease, chunk: Chunk) -> None:
        """Ask the owner once more, as late as possible: listing may have taken long."""
        try:
            live = self._owner.live(token.instance, chunk.resolved, holding.prove)
        except OwnerSilent as e:
            self._keep(token, chunk, set(chunk.refs), f"{HELD_BY_OWNER}{e}")
        else:
            self._keep(token, chunk, set(live), LIVE)

    def _keep_held(self, token: WriteToken, chunk: Chunk) -> None:
        """Ask the holders about what a last look found, as the claim asked about the rest."""
        try:
            held = self._marks.held(token, chunk.refs, {r: t.above for r, t in chunk.terms.items()})
        except GuardBusy:
            self._keep(token, chunk, set(chunk.refs), OWNER_BUSY)
            return
        for who in sorted(set(held.values())):
            self._keep(token, chunk, {ref for ref, holder in held.items() if holder == who}, who)

    def _keep(self, token: WriteToken, chunk: Chunk, refs: Set[Ref], holder: str) -> None:
        """Leave resolved marks alone this round, and say who keeps them."""
        if refs:
            chunk.held[holder] += len(refs)
            chunk.resolved = [m for m in chunk.resolved if m.ref not in refs]
            self._marks.drop_files(token, refs)

    def _abort_uploads(self, token: WriteToken, holding: ActiveLease, chunk: Chunk) -> None:
        """Abort uploads that were never finished under prefixes whose upload grace has passed."""
        for ref in chunk.refs:
            for place in chunk.prefixes[ref]:
                holding.prove()
                try:
                    self._vaults.get(token.instance, place.vault).abort_uploads(str(place.prefix))
                except (VaultFault, UnknownVault) as e:
                    holding.fault(place.vault, getattr(e, "reason", Reason.UNKNOWN_VAULT))
                    self._keep(token, chunk, {ref}, f"{HELD_BY_VAULT}{place.vault}: {holding.faults[place.vault]}")
                    break

    def _delete(
        self, token: WriteToken, holding: ActiveLease, refs: Sequence[Ref], upload_grace_seconds: int
    ) -> Counter[str]:
        """Delete the files of claimed marks and settle what became of them; return who keeps what was not settled."""
        told = self._sweep(token, holding)
        return self._concluder.conclude(token, holding, refs, upload_grace_seconds, told=told)

    def _finish(
        self, token: WriteToken, holding: ActiveLease, upload_grace_seconds: int, watch: _ProgressReporter | None = None
    ) -> Counter[str]:
        """Delete and settle whatever the batch has claimed; return who keeps what was not settled."""
        told = self._sweep(token, holding, watch)
        after, kept = FIRST, Counter[str]()
        while refs := self._marks.claimed_refs(token, after, CHUNK_MARKS):
            kept += self._concluder.conclude(token, holding, refs, upload_grace_seconds, told=told)
            after = refs[-1]
        return kept

    def _sweep(self, token: WriteToken, holding: ActiveLease, watch: _ProgressReporter | None = None) -> bool:
        """Try every undone file of claimed marks of the batch; return whether the audit was told meanwhile."""
        last = self._marks.last_file(token)
        with self._sweeps.begin(token, holding) as sweep:
            if watch is not None:
                watch.sweep = sweep
            sweep.claimed(last)
            sweep.finish()
            return sweep.audited(0, last)
