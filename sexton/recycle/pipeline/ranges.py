"""Recycle one range of due marks: resolve → claim → delete → settle, with a few groups of marks in progress at once.

A plan has waves of kinds; a large kind has shards, each is deleted range by range. A range is one batch; its marks are
resolved in chunks, claimed in groups, and their files deleted in pages of one request.

Every step can run twice. Only the claim decides about deletion, and only stored files of claimed marks are deleted.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sexton.kernel.errors import GuardBusy
from sexton.marks.kept import OWNER_BUSY, PROTECTED, Kept, name_first
from sexton.marks.model import CHUNK_MARKS, ClaimRequest, DueMark, Ref
from sexton.recycle.pipeline.active_lease import ActiveLease, BatchWork
from sexton.recycle.pipeline.model import Chunk, Cursor, RangeOrder, RangeReceipt, refuse_many
from sexton.recycle.pipeline.parts import Deletion, Parts
from sexton.recycle.pipeline.resolve import Resolver
from sexton.recycle.pipeline.settle import Settler

RANGE_OBJECTS = 250_000
"""Objects, or marks scanned, after which a range ends and reports to the workflow."""
GROUP_FILES = 8_000
"""Files claimed before their pages are deleted together: enough pages to keep the threads busy."""
GROUPS_AT_ONCE = 3
"""Groups that are claimed and not settled: one is deleted, one comes before and one after it."""


class _ClaimedGroup(NamedTuple):
    """Marks that were claimed together; their files have numbers above ``files_after``, up to ``last_file``."""

    refs: Sequence[Ref]
    files_after: int
    last_file: int


@dataclass
class _RangeState:
    """A range that is worked on: its order, and how far it has come."""

    order: RangeOrder
    work: BatchWork
    scanned: int
    claimed: int
    cursor: Cursor
    keep_counts: Counter[Kept]
    work_done: int = 0
    """Files, or marks scanned where these are more: marks without files are work too."""
    quarantined: int = 0
    protected_bytes: int = 0
    last_file: int = 0
    """The number of the last file that this range stored, or an earlier attempt."""
    claimed_files: int = 0
    """Files of claimed marks, and all that earlier attempts left."""
    nothing_due: bool = False
    """Whether no due mark is left, or the plan's count of marks is reached."""
    chunk_marks: int = field(default_factory=lambda: CHUNK_MARKS)
    """Marks that are read for the next chunk."""

    def add_chunk(self, chunk: Chunk, due: Sequence[DueMark], claimed: Sequence[Ref]) -> None:
        """Count a chunk that has been claimed; it covers the first ``chunk.seen`` of the due marks that were read."""
        self.chunk_marks = marks_to_read(self.chunk_marks, len(due), chunk.seen)
        seen = due[: chunk.seen]
        self.cursor = Cursor(retention_starts_at=seen[-1].retention_starts_at, id=seen[-1].id)
        self.scanned += len(seen)
        self.quarantined += len(chunk.unresolvable)
        self.claimed += len(claimed)
        self.claimed_files += sum(chunk.candidates[ref].files for ref in claimed)
        self.keep_counts += chunk.kept
        self.protected_bytes += chunk.protected_bytes


class RangeRunner:
    """Runs ranges for one worker. Safe for several ranges at once."""

    def __init__(self, parts: Parts, resolver: Resolver, settler: Settler, group_files: int | None = None) -> None:
        """``group_files``: files in a group; None: ``GROUP_FILES``."""
        self._parts, self._stores, self._resolver, self._settler = parts, parts.stores, resolver, settler
        self._group_files = group_files

    def run(self, order: RangeOrder, attempt: int, heartbeat: Callable[[], None]) -> RangeReceipt:
        """Claim, delete and settle one range of due marks.

        If an earlier attempt has finished the range, its stored receipt is returned. Otherwise the marks that an
        earlier attempt claimed are deleted and settled first.

        Raises:
            LeaseLost: stop; a newer run continues.
            Halted: stop; an operator's stop, a list or a window halts the instance.
            NotEnabled: the instance is in observe mode.
            TooManyObjects: the next attempt finishes what is claimed, and continues.
        """
        # Each task queue counts its attempts from 1: add the most that the other queue made, so that this one is newer.
        token, stored_receipt, claimed_before = self._stores.batches.open(order, order.attempts + attempt)
        if stored_receipt is not None:
            return stored_receipt
        parts = self._parts
        active_lease = ActiveLease(parts.leases, parts.controls, order.lease, heartbeat, order.excluded_vaults)
        # Marks that earlier attempts claimed are no longer due, so this one does not scan them: ``scanned`` begins so.
        state = _RangeState(
            order=order,
            work=BatchWork(token, active_lease),
            scanned=claimed_before,
            claimed=claimed_before,
            cursor=order.after,
            keep_counts=Counter(),
            # Numbers of files only grow, also over rows that are removed meanwhile.
            last_file=(last_file := self._stores.files.last_number(token)),
            claimed_files=last_file,
        )
        refuse_many(order, last_file)
        state.keep_counts += self._settler.finish(state.work, order.upload_grace_seconds)
        self._run_groups(state)
        receipt = RangeReceipt(
            scanned=state.scanned,
            claimed=state.claimed,
            last=state.cursor,
            finished=state.nothing_due,
            kept=name_first(state.keep_counts),
            protected_bytes=state.protected_bytes,
            quarantined=state.quarantined,
            faults=active_lease.faults,
            fault_details=active_lease.fault_details,
            **self._stores.outcomes.deleted_so_far(token, order.kind),
        )
        self._stores.batches.close(token, receipt)
        return receipt

    def _run_groups(self, state: _RangeState) -> None:
        """Claim group after group while earlier ones are deleted, so that the store is busy while rows are written."""
        with self._parts.deleter.begin(state.work.token, state.work.active_lease, state.last_file) as deletion:
            groups: deque[_ClaimedGroup] = deque()
            while groups or not self._claims_no_more(state):
                while len(groups) < GROUPS_AT_ONCE and not self._claims_no_more(state):
                    groups.append(self._claim_next_group(state, deletion))
                    if deletion.has_tried(groups[0].last_file):  # the oldest one waits to be settled
                        break
                group = groups.popleft()
                deletion.wait_for(group.last_file)
                if self._parts.deleter.leaves_requests:
                    self._stores.batches.record_requests(state.work.token)  # before its marks are removed
                logged = deletion.logged(group.files_after, group.last_file)
                state.keep_counts += self._settler.settle(
                    state.work, group.refs, state.order.upload_grace_seconds, logged=logged
                )
            deletion.finish()

    def _claims_no_more(self, state: _RangeState) -> bool:
        """Return whether this range claims no more marks."""
        return state.nothing_due or state.work_done >= RANGE_OBJECTS

    def _claim_next_group(self, state: _RangeState, deletion: Deletion) -> _ClaimedGroup:
        """Resolve and claim the next due marks, a group's worth, chunk by chunk."""
        refs: list[Ref] = []
        order, files_after = state.order, state.last_file
        files = scanned = 0
        while max(files, scanned) < (self._group_files or GROUP_FILES):
            state.work.active_lease.keep_alive()
            due: Sequence[DueMark] = ()
            if (room := min(state.chunk_marks, order.limit - state.claimed)) > 0:  # else the plan's count is reached
                due = self._stores.due_marks.select_due(
                    state.work.instance, order.kind, order.cutoff, state.cursor, room, order.until
                )
            if not due:
                state.nothing_due = True
                break
            chunk = self._resolver.resolve(state.work, due, state.last_file)
            claimed = self._claim(state, chunk)
            state.last_file = chunk.last_file
            deletion.release_up_to(chunk.last_file)
            state.add_chunk(chunk, due, claimed)
            refs += claimed
            files += chunk.files
            scanned += chunk.seen
        state.work_done += max(files, scanned)
        refuse_many(order, state.claimed_files)
        return _ClaimedGroup(refs, files_after, state.last_file)

    def _claim(self, state: _RangeState, chunk: Chunk) -> list[Ref]:
        """Claim the resolved marks that vaults and owner still allow; return the claimed ones."""
        work = state.work
        self._resolver.keep_unverified(work, chunk)
        self._resolver.keep_live(work, chunk)
        if not chunk.resolved:
            return []
        work.active_lease.keep_alive()
        request = ClaimRequest(
            token=work.token,
            candidates=chunk.resolved_candidates,
            cutoff=state.order.cutoff,
            resolved=chunk.candidates,
            allowance=state.order.allowance,
            files_after=chunk.files_after,
            last_file=chunk.last_file,
        )
        try:
            result = self._stores.claims.claim(request)
        except GuardBusy:
            self._resolver.keep(work, chunk, dict.fromkeys(chunk.refs, OWNER_BUSY))
            return []
        chunk.kept += Counter(result.keep_reasons.values())
        protected = {ref for ref, answer in result.keep_reasons.items() if answer.reason in PROTECTED}
        chunk.protected_bytes += sum(mark.bytes or 0 for mark in chunk.resolved if mark.ref in protected)
        return sorted(result.claimed)


def marks_to_read(limit: int, read: int, seen: int) -> int:
    """Return how many marks to read for the next chunk: marks of many keys fill it early, and are large to read. Pure.

    Args:
        limit: how many were to be read for this chunk.
        read: how many were read.
        seen: how many of them the chunk covers.
    """
    if seen < read:
        return max(1, min(CHUNK_MARKS, seen + seen // 4 + 1))
    return min(CHUNK_MARKS, 2 * limit)
