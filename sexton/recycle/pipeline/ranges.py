"""Recycle one range of due marks: resolve → claim → delete → settle, with a few groups of marks in progress at once.

Every step can run twice. Only the claim decides about deletion, and only stored files of claimed marks are deleted.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sexton.kernel.errors import GuardBusy
from sexton.marks.keepers import OWNER_BUSY, PROTECTED, Kept
from sexton.marks.lease_port import Leases
from sexton.marks.model import CHUNK_MARKS, ClaimRequest, DueMark, Ref
from sexton.operators.controls.port import Gate
from sexton.recycle.pipeline.active_lease import ActiveLease, BatchWork
from sexton.recycle.pipeline.chunk import Chunk
from sexton.recycle.pipeline.deleter import Deletion
from sexton.recycle.pipeline.model import Cursor, RangeOrder, RangeProgress, RangeReceipt
from sexton.recycle.pipeline.port import Stores
from sexton.recycle.pipeline.steps import Steps

RANGE_OBJECTS = 100_000
"""Objects, or marks scanned, after which a range ends and reports to the workflow."""
GROUP_FILES = 8_000
"""Files claimed before their pages are deleted together: enough pages to keep the threads busy."""
GROUPS_AT_ONCE = 3
"""Groups that are claimed and not settled: one is deleted, one comes before and one after it."""
REPORT_SECONDS = 1.0


class _ClaimedGroup(NamedTuple):
    """Marks that were claimed together; their files have numbers above ``before``, up to ``last``."""

    refs: Sequence[Ref]
    before: int
    last: int


@dataclass
class _RangeState:
    """How far a range has come."""

    scanned: int
    claimed: int
    cursor: Cursor
    keep_counts: Counter[Kept]
    objects: int = 0
    quarantined: int = 0
    protected_bytes: int = 0
    last: int = 0
    finished: bool = False


@dataclass
class ProgressReporter:
    """Reports how far a range is, at most once per ``REPORT_SECONDS``, whenever the range sends a heartbeat."""

    report: Callable[[RangeProgress], None]
    heartbeat: Callable[[], None]
    state: _RangeState | None = None
    deletion: Deletion | None = None
    active_lease: ActiveLease | None = None
    files: int = 0
    """The number of the last file that an earlier attempt stored."""
    reported_at: float = float("-inf")

    def __call__(self) -> None:
        state, deletion, active_lease = self.state, self.deletion, self.active_lease
        if state and deletion and active_lease and time.monotonic() - self.reported_at >= REPORT_SECONDS:
            self.reported_at = time.monotonic()
            files = max(self.files, state.last)
            self.report(
                RangeProgress(claimed=state.claimed, files=files, tried=deletion.tried_to, faults=active_lease.faults)
            )
        self.heartbeat()

    def observe(self, deletion: Deletion) -> None:
        """Report the progress of this deletion from now on."""
        self.deletion = deletion


class RangeRunner:
    """Runs ranges for one worker. Safe for several ranges at once."""

    def __init__(self, stores: Stores, steps: Steps, sizes: tuple[int | None, int | None] = (None, None)) -> None:
        """``sizes``: files in a group and objects in a range; None: ``GROUP_FILES``, ``RANGE_OBJECTS``."""
        self._stores = stores
        self._steps = steps
        self._group_files, self._range_objects = sizes

    def run(
        self,
        order: RangeOrder,
        attempt: int,
        leases: Leases,
        gate: Gate,
        reporter: ProgressReporter,
    ) -> RangeReceipt:
        """Claim, delete and settle one range of due marks.

        Raises:
            LeaseLost: stop; a newer run continues.
            Halted: stop; an operator's stop, a list or a window halts the instance.
            NotEnabled: the instance is in observe mode.
        """
        token, receipt = self._stores.batches.open(order, order.attempts + attempt)
        if receipt is not None:
            return receipt
        active_lease = ActiveLease(leases, gate, order.lease, reporter, order.excluded_vaults)
        work = BatchWork(token, active_lease)
        claimed = self._stores.batches.claimed_batch(token)
        state = _RangeState(claimed, claimed, order.after, Counter())
        reporter.active_lease, reporter.state = active_lease, state
        reporter.files = self._stores.files.last_number(token)
        state.keep_counts += self._steps.finisher.finish(work, order.upload_grace_seconds, reporter.observe)
        self._run_groups(work, order, state, reporter)
        receipt = self._receipt(work, order, state)
        self._stores.batches.close(token, receipt)
        return receipt

    def _run_groups(self, work: BatchWork, order: RangeOrder, state: _RangeState, reporter: ProgressReporter) -> None:
        """Claim group after group while earlier ones are deleted, so that the store is busy while rows are written."""
        with self._steps.deleter.begin(work.token, work.active_lease) as deletion:
            reporter.observe(deletion)
            groups: deque[_ClaimedGroup] = deque()
            while groups or not self._ended(state):
                if not self._ended(state) and len(groups) < GROUPS_AT_ONCE:
                    groups.append(self._claim_next_group(work, order, state, deletion))
                    if not deletion.tried(groups[0].last):
                        continue
                group = groups.popleft()
                deletion.wait_for(group.last)
                logged = deletion.logged(group.before, group.last)
                state.keep_counts += self._steps.settler.settle(
                    work, group.refs, order.upload_grace_seconds, logged=logged
                )
            deletion.finish()

    def _ended(self, state: _RangeState) -> bool:
        """Return whether this range claims no more marks."""
        return state.finished or state.objects >= (self._range_objects or RANGE_OBJECTS)

    def _claim_next_group(
        self, work: BatchWork, order: RangeOrder, state: _RangeState, deletion: Deletion
    ) -> _ClaimedGroup:
        """Resolve and claim the next due marks, a group's worth, chunk by chunk."""
        group = _ClaimedGroup([], state.last, state.last)
        files = scanned = 0
        while max(files, scanned) < (self._group_files or GROUP_FILES):
            work.active_lease.keep_alive()
            room = min(CHUNK_MARKS, order.limit - state.claimed)
            due = self._select_due(work, order, state, room)
            if not due:
                state.finished = True
                break
            chunk = self._steps.resolver.resolve(work, due, state.last)
            claimed = self._claim(work, order, chunk)
            state.last = chunk.last
            deletion.claimed(chunk.last)
            seen = due[: chunk.seen]
            state.cursor = Cursor(retention_starts_at=seen[-1].retention_starts_at, id=seen[-1].id)
            state.scanned += len(seen)
            state.quarantined += len(chunk.unresolvable)
            state.claimed += len(claimed)
            state.keep_counts += chunk.kept
            state.protected_bytes += chunk.protected_bytes
            group = _ClaimedGroup([*group.refs, *claimed], group.before, chunk.last)
            files += chunk.files
            scanned += chunk.seen
        state.objects += max(files, scanned)
        return group

    def _select_due(self, work: BatchWork, order: RangeOrder, state: _RangeState, room: int) -> Sequence[DueMark]:
        if room <= 0:
            return ()
        return self._stores.batches.select_due(work.instance, order.kind, order.cutoff, state.cursor, room)

    def _claim(self, work: BatchWork, order: RangeOrder, chunk: Chunk) -> list[Ref]:
        """Claim the resolved marks that vaults and owner still allow; return the claimed ones."""
        self._steps.recheck.vaults(work, chunk)
        self._steps.recheck.liveness(work, chunk)
        if not chunk.resolved:
            return []
        work.active_lease.keep_alive()
        request = ClaimRequest(
            token=work.token,
            candidates=chunk.resolved_candidates,
            cutoff=order.cutoff,
            children=chunk.candidates,
            allowance=order.allowance,
            files_after=chunk.first,
        )
        try:
            result = self._stores.claims.claim(request)
        except GuardBusy:
            self._steps.recheck.keep(work, chunk, set(chunk.refs), OWNER_BUSY)
            return []
        chunk.kept += Counter(result.keep_reasons.values())
        protected = {ref for ref, answer in result.keep_reasons.items() if answer.reason in PROTECTED}
        chunk.protected_bytes += sum(mark.bytes or 0 for mark in chunk.resolved if mark.ref in protected)
        return sorted(result.claimed)

    def _receipt(self, work: BatchWork, order: RangeOrder, state: _RangeState) -> RangeReceipt:
        return RangeReceipt(
            scanned=state.scanned,
            claimed=state.claimed,
            last=state.cursor,
            finished=state.finished,
            kept=dict(state.keep_counts),
            protected_bytes=state.protected_bytes,
            quarantined=state.quarantined,
            faults=work.active_lease.faults,
            **self._stores.outcomes.deleted_so_far(work.token, order.kind)._asdict(),
        )
