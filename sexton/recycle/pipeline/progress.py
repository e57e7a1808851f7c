"""Sum up the outcomes of a claimed mark's files, and decide how the mark is settled. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sexton.marks.model import DONE, SEVERAL, DeletionCounts, Ref, Settlement
from sexton.marks.policy import settlement_of
from sexton.storage.model import KeyOutcome

FAILURES = (KeyOutcome.FAILED, KeyOutcome.CHANGED)
GONE_NOW = (KeyOutcome.DELETED, KeyOutcome.HIDDEN)


@dataclass
class DeletionProgress:
    """One mark, and counts over its files. ``absorbed``: the marks that are removed with it.

    ``gone``: objects and bytes that are gone; bytes as measured, otherwise as the owner states them. ``failed``: files
    that failed, by vault; what is gone was counted when its outcome was stored.
    """

    ref: Ref
    vault: str
    failures: int
    deletion_counts: DeletionCounts
    reason: str | None
    gone: tuple[int, int]
    failed: Mapping[str, int]
    absorbed: list[Ref] = field(default_factory=list)

    @classmethod
    def of(cls, mark: Any, files: Iterable[Any]) -> Self:
        """Build it from the mark's row, and from rows of (vault, outcome, files, bytes, reason)."""
        files_total = done = objects = freed = 0
        failed: dict[KeyOutcome, int] = dict.fromkeys(FAILURES, 0)
        reasons: dict[KeyOutcome, str | None] = {}
        failed_by_vault: dict[str, int] = {}
        for row in files:
            files_total += row.files
            if row.outcome in DONE:
                done += row.files
                objects += row.files if row.outcome in GONE_NOW else 0
                freed += row.bytes if row.outcome == KeyOutcome.DELETED else 0
            elif row.outcome in failed:
                failed[row.outcome] += row.files
                reasons[row.outcome] = row.reason
                failed_by_vault[row.vault] = failed_by_vault.get(row.vault, 0) + row.files
        deletion_counts = DeletionCounts(
            prefix=mark.prefix,
            first_pass_at=mark.first_pass_at,
            files=files_total,
            done=done,
            failed=failed[KeyOutcome.FAILED],
            changed=failed[KeyOutcome.CHANGED],
            lacking=mark.lacking,
        )
        reason = reasons.get(KeyOutcome.CHANGED) or reasons.get(KeyOutcome.FAILED)
        home = mark.vault or SEVERAL
        return cls(
            Ref(mark.kind, mark.id), home, mark.failures, deletion_counts, reason, (objects, freed), failed_by_vault
        )

    @property
    def settlement(self) -> Settlement:
        """Return how the mark is settled."""
        return settlement_of(self.deletion_counts)
