"""Check a resolved chunk again, as late as possible. Marks that are kept leave the chunk.

Before a claim: vaults and liveness. Before a second pass, which claims nothing: keepers too.
"""

from collections.abc import Mapping, Set
from functools import partial

from sexton.kernel.errors import GuardBusy
from sexton.marks.keepers import OWNER_BUSY, Kept, by_live, by_owner_silence, by_vault
from sexton.marks.model import Reason, Ref
from sexton.owners.port import Owner, OwnerSilent
from sexton.recycle.pipeline.active_lease import BatchWork
from sexton.recycle.pipeline.model import Chunk
from sexton.recycle.pipeline.sql.store import Stores
from sexton.storage.port import UnknownVault, VaultFault, Vaults


class Recheck:
    """Rechecks chunks for one worker."""

    def __init__(self, stores: Stores, vaults: Vaults, owner: Owner) -> None:
        self._stores = stores
        self._vaults = vaults
        self._owner = owner

    def drop_unverified(self, work: BatchWork, chunk: Chunk) -> None:
        """Drop marks from the chunk that have files in a vault that cannot be verified now."""
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
        work.active_lease.add_fault(vault, reason)
        self.keep(work, chunk, dict.fromkeys(refs, by_vault(vault, reason)))

    def drop_live(self, work: BatchWork, chunk: Chunk) -> None:
        """Drop marks from the chunk that their owner lists as live: listing the files may have taken long."""
        try:
            live = self._owner.live(work.instance, chunk.resolved, work.active_lease.keep_alive)
        except OwnerSilent as e:
            self.keep(work, chunk, dict.fromkeys(chunk.refs, by_owner_silence(e)))
        else:
            self.keep(work, chunk, {ref: by_live(ref, rows) for ref, rows in live.items()})

    def drop_blocked(self, work: BatchWork, chunk: Chunk) -> None:
        """Drop marks from the chunk that a keeper blocks by files of a second pass; a claim asks by itself."""
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
