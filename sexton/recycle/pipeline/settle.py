"""Settle claimed marks after a deletion: log the outcomes, delete the owner's records, then the marks."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from sexton.kernel.crash_points import reached
from sexton.marks.keepers import Kept, by_owner_silence, by_vault
from sexton.marks.model import CHUNK_MARKS, Reason, Ref, Settlement
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.audit.model import AuditRow, DeletionLog
from sexton.recycle.pipeline.active_lease import ActiveLease, BatchWork
from sexton.recycle.pipeline.progress import DeletionProgress
from sexton.recycle.pipeline.sql.store import Stores
from sexton.storage.port import UnknownVault, VaultFault

LOG_FAULT = "audit "
"""Prefix of a fault that is not the vault's, but that of the place of its log of deletions."""


class Settler:
    """Settles marks for one worker. Safe for several ranges at once."""

    def __init__(self, stores: Stores, owner: Owner, log: DeletionLog) -> None:
        self._stores = stores
        self._owner = owner
        self._log = log

    def settle(
        self,
        work: BatchWork,
        refs: Sequence[Ref],
        upload_grace_seconds: int,
        *,
        logged: bool,
    ) -> Counter[Kept]:
        """Log the outcomes, unless the deletion has ``logged`` them, then settle; return why marks stay claimed."""
        unlogged: dict[Ref, Kept] = {}
        if not logged:
            unlogged = log_deletions(self._log, work.active_lease, self._stores.outcomes.of_marks(work.token, refs))
        refs = [ref for ref in refs if ref not in unlogged]
        keep_counts = Counter(unlogged.values())
        for start in range(0, len(refs), CHUNK_MARKS):
            work.active_lease.keep_alive()
            keep_counts += self._settle_chunk(work, refs[start : start + CHUNK_MARKS], upload_grace_seconds)
        return keep_counts

    def _settle_chunk(self, work: BatchWork, refs: Sequence[Ref], upload_grace_seconds: int) -> Counter[Kept]:
        """Delete the owner's records, then the marks; the files are deleted already. Return why marks stay claimed."""
        marks = self._stores.settlements.progress(work.token, refs)
        finished = [m for m in marks if m.settlement is Settlement.GONE]
        keep_counts: Counter[Kept] = Counter()
        if finished:
            try:
                self._forget(work, finished)
            except OwnerSilent as e:  # the next round asks again
                keep_counts[by_owner_silence(e)] = len(finished)
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


def log_deletions(
    log: DeletionLog, active_lease: ActiveLease, outcomes: Iterable[Sequence[AuditRow]]
) -> dict[Ref, Kept]:
    """Log each file's outcome before its record is deleted; return the marks whose records must therefore stay."""
    unlogged: dict[Ref, Kept] = {}
    for rows in outcomes:
        for vault, group in groupby(sorted(rows, key=lambda r: r.vault), key=lambda r: r.vault):
            active_lease.keep_alive()
            of_vault = list(group)
            try:
                active_lease.retry_throttled(partial(log.write, of_vault))
            except (VaultFault, UnknownVault) as e:
                reason = getattr(e, "reason", Reason.UNKNOWN_VAULT)
                log_is_elsewhere = getattr(e, "vault", vault) != vault  # audit_url: the vault itself is fine
                if log_is_elsewhere:
                    reason = f"{LOG_FAULT}{reason}"
                active_lease.add_fault(vault, reason)
                unlogged |= {Ref(r.kind, r.id): by_vault(vault, reason) for r in of_vault}
    reached("audit.written")
    return unlogged
