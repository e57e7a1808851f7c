"""Sum up the outcomes of a claimed mark's files, and decide how the mark is settled. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sexton.marks.model import DONE, SEVERAL, DeletionCounts, Ref, Settlement
from sexton.marks.policy import settlement_of
from sexton.storage.model import KeyOutcome

FAILURES = (KeyOutcome.FAILED, KeyOutcome.CHANGED)


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
        total: Counter[str | None] = Counter()
        failed: Counter[str] = Counter()
        reasons: dict[str | None, str] = {}
        freed = 0
        for row in files:
            total[row.outcome] += row.files
            reasons[row.outcome] = row.reason
            freed += row.bytes if row.outcome == KeyOutcome.DELETED else 0
            if row.outcome in FAILURES:
                failed[row.vault] += row.files
        deletion_counts = DeletionCounts(
            prefix=mark.prefix,
            first_pass_at=mark.first_pass_at,
            files=total.total(),
            done=sum(total[outcome] for outcome in DONE),
            failed=total[KeyOutcome.FAILED],
            changed=total[KeyOutcome.CHANGED],
            lacking=mark.lacking,
        )
        reason = reasons.get(KeyOutcome.CHANGED) or reasons.get(KeyOutcome.FAILED)
        deleted = (total[KeyOutcome.DELETED] + total[KeyOutcome.HIDDEN], freed)
        home = mark.vault or SEVERAL
        return cls(Ref(mark.kind, mark.id), home, mark.failures, deletion_counts, reason, deleted, failed)

    @property
    def settlement(self) -> Settlement:
        """Return how the mark is settled."""
        return settlement_of(self.deletion_counts)
