"""Settle claimed marks after a deletion: log the outcomes, delete the owner's records, then the marks.

``Settler.finish`` deletes and settles what a batch has claimed, in this attempt or an earlier one.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from sexton.kernel.crash_points import reached
from sexton.marks.kept import Kept, by_owner_silence, by_vault
from sexton.marks.model import CHUNK_MARKS, Reason, Ref, Settlement
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.pipeline.active_lease import ActiveLease, BatchWork
from sexton.recycle.pipeline.decide import DeletionProgress
from sexton.recycle.pipeline.model import Chunk
from sexton.recycle.pipeline.parts import Deleter, Stores
from sexton.storage.model import IN_FLIGHT_SECONDS
from sexton.storage.port import UnknownVault, VaultFault

log = logging.getLogger(__name__)
LOG_FAULT = "audit "
"""Prefix of a fault that is not the vault's, but that of the place of its log of deletions."""


class Settler:
    """Settles marks and finishes batches for one worker. Safe for several ranges at once."""

    def __init__(self, stores: Stores, owner: Owner, log: ParquetAudit, deleter: Deleter) -> None:
        self._stores = stores
        self._owner = owner
        self._log = log
        self._deleter = deleter

    def settle(
        self,
        work: BatchWork,
        refs: Sequence[Ref],
        upload_grace_seconds: int,
        *,
        logged: bool,
    ) -> Counter[Kept]:
        """Log the outcomes, unless the deletion has ``logged`` them; delete the owner's records, then the marks.

        The files are deleted already. Return why marks stay claimed.
        """
        unlogged: dict[Ref, Kept] = {}
        if not logged:
            unlogged = log_deletions(self._log, work.active_lease, self._stores.outcomes.of_marks(work.token, refs))
        refs = [ref for ref in refs if ref not in unlogged]
        keep_counts = Counter(unlogged.values())
        for start in range(0, len(refs), CHUNK_MARKS):
            work.active_lease.keep_alive()
            marks = self._stores.settlements.progress(work.token, refs[start : start + CHUNK_MARKS])
            finished = [m for m in marks if m.settlement is Settlement.GONE]
            if finished:
                try:
                    self._forget(work, finished)
                except OwnerSilent as e:  # the next round asks again
                    keep_counts[by_owner_silence(e)] += len(finished)
                    marks = [m for m in marks if m.settlement is not Settlement.GONE]
                reached("owner.forgot")
            self._stores.settlements.settle(work.token, marks, upload_grace_seconds)
        return keep_counts

    def _forget(self, work: BatchWork, finished: Sequence[DeletionProgress]) -> None:
        """Let the owner remove its records of marks whose files are gone.

        From then on a newer attempt does the same: no keeper may keep a mark whose records are removed.
        """
        if not self._owner.keeps_records(work.instance):
            return
        settlements = self._stores.settlements
        recorded = settlements.record_finished(work.token, [m.ref for m in finished])

        def find_refs(connection: Any) -> list[Ref]:
            """Return the marks, with their children, that no operator has discarded meanwhile."""
            still_there = settlements.lock_finished(connection, work.token, recorded)
            return [ref for m in finished if m.ref in still_there for ref in (m.ref, *m.absorbed)]

        self._owner.forget(work.instance, find_refs)

    def finish(self, work: BatchWork, upload_grace_seconds: int) -> Counter[Kept]:
        """Clean up after an older attempt, then delete and settle every claimed mark of the batch.

        Args:
            work: the token and the lease.
            upload_grace_seconds: the wait before a second pass.

        Returns:
            why marks were not settled.
        """
        self.drop_unclaimed(work)
        logged = self._delete(work, 0, self._stores.files.last_number(work.token))
        keep_counts: Counter[Kept] = Counter()
        for refs in self._stores.due_marks.claimed_marks(work.token):
            keep_counts += self.settle(work, refs, upload_grace_seconds, logged=logged)
        return keep_counts

    def drop_unclaimed(self, work: BatchWork) -> None:
        """Drop the files that an older attempt left in the batch and never claimed, a few thousand at a time.

        An older attempt's request may still delete files of a second pass. Their rows tell registrations and operators
        so; they are dropped when that request has ended.
        """
        if self._drop_pages(work, second_pass=False):
            log.info(
                "batch %d: waits %.0f s, because requests of an older attempt may still delete files",
                work.token.batch,
                IN_FLIGHT_SECONDS,
            )
            work.active_lease.wait(IN_FLIGHT_SECONDS)
            self._drop_pages(work, second_pass=True)

    def _drop_pages(self, work: BatchWork, *, second_pass: bool) -> int:
        """Drop page by page; return how many undone files of second passes were kept."""
        after = unchecked = 0
        while True:
            work.active_lease.keep_alive()
            page = self._stores.files.drop_unclaimed(work.token, after, second_pass=second_pass)
            if page is None:
                return unchecked
            after = page.last
            unchecked += page.unchecked

    def finish_chunk(self, work: BatchWork, chunk: Chunk, upload_grace_seconds: int) -> Counter[Kept]:
        """Delete the files of a chunk of second passes, and settle its marks; return why marks were not settled.

        What could not be deleted is dropped: the next round lists it again and asks the keepers again.
        """
        logged = self._delete(work, chunk.files_after, chunk.last_file)
        keep_counts = self.settle(work, chunk.refs, upload_grace_seconds, logged=logged)
        self._stores.files.drop(work.token, chunk.refs, chunk.files_after)
        return keep_counts

    def _delete(self, work: BatchWork, after: int, last: int) -> bool:
        """Try the undone files of claimed marks numbered above ``after``, up to ``last``.

        Returns:
            whether the deletion logged the outcomes itself.
        """
        with self._deleter.begin(work.token, work.active_lease, after) as deletion:
            deletion.release_up_to(last)
            deletion.finish()
            if self._deleter.leaves_requests:
                self._stores.batches.record_requests(work.token)  # before the marks are removed
            return deletion.logged(after, last)


def log_deletions(
    deletion_log: ParquetAudit, active_lease: ActiveLease, outcomes: Iterable[Sequence[AuditRow]]
) -> dict[Ref, Kept]:
    """Log each file's outcome before its record is deleted; return the marks whose records must therefore stay."""
    unlogged: dict[Ref, Kept] = {}
    for rows in outcomes:
        for vault, group in groupby(sorted(rows, key=lambda r: r.vault), key=lambda r: r.vault):
            active_lease.keep_alive()
            of_vault = list(group)
            try:
                active_lease.retry_throttled(partial(deletion_log.write, of_vault))
            except (VaultFault, UnknownVault) as e:
                reason = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                log_is_elsewhere = getattr(e, "vault", vault) != vault  # audit_url: the vault itself is fine
                if log_is_elsewhere:
                    reason = f"{LOG_FAULT}{reason}"
                active_lease.add_fault(vault, reason, str(getattr(e, "detail", e)))
                unlogged |= {Ref(r.kind, r.id): by_vault(vault, reason) for r in of_vault}
    reached("audit.written")
    return unlogged
