"""Sum up the outcomes of a claimed mark's files, and decide how the mark is settled. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sexton.marks.model import DONE, SEVERAL, DeletionCounts, Ref, Settlement
from sexton.marks.policy import settlement_of
from sexton.storage.model import KeyOutcome

BYTES_OF = {KeyOutcome.DELETED: "bytes_freed", KeyOutcome.HIDDEN: "bytes_hidden"}
FAILURES = (KeyOutcome.FAILED, KeyOutcome.CHANGED)
ENDED = (Settlement.GONE, Settlement.SECOND_PASS, Settlement.LACKING, Settlement.CHANGED)


@dataclass
class DeletionProgress:
    """One mark, and counts over its files by vault. ``absorbed``: the marks that are removed with it."""

    ref: Ref
    vault: str
    failures: int
    deletion_counts: DeletionCounts
    reason: str | None
    by_vault: Mapping[str, Mapping[str, int]]
    absorbed: list[Ref] = field(default_factory=list)

    @classmethod
    def of(cls, mark: Any, files: Iterable[Any]) -> Self:
        """Build it from the mark's row, and from rows of (vault, outcome, files, bytes, unmeasured, reason)."""
        by_vault: dict[str, dict[str, int]] = {}
        total: dict[str | None, int] = {}
        reasons: dict[str | None, str] = {}
        home = mark.vault or SEVERAL
        for row in files:
            outcome = row.outcome
            total[outcome] = total.get(outcome, 0) + row.files
            reasons[outcome] = row.reason
            counts = by_vault.setdefault(row.vault, {})
            if outcome is not None:
                counts[outcome] = counts.get(outcome, 0) + row.files
            if row.bytes and (name := BYTES_OF.get(outcome)):
                counts[name] = counts.get(name, 0) + row.bytes
            if row.unmeasured and outcome == KeyOutcome.DELETED:
                # As the owner states it; counted once, for any number of vaults.
                by_vault.setdefault(home, {})["bytes_estimated"] = int(mark.bytes)
        deletion_counts = DeletionCounts(
            prefix=mark.prefix,
            first_pass_at=mark.first_pass_at,
            files=sum(total.values()),
            done=sum(total.get(outcome, 0) for outcome in DONE),
            failed=total.get(KeyOutcome.FAILED, 0),
            changed=total.get(KeyOutcome.CHANGED, 0),
            lacking=mark.lacking,
        )
        reason = reasons.get(KeyOutcome.CHANGED) or reasons.get(KeyOutcome.FAILED)
        return cls(Ref(mark.kind, mark.id), home, mark.failures, deletion_counts, reason, by_vault)

    @property
    def settlement(self) -> Settlement:
        """Return how the mark is settled."""
        return settlement_of(self.deletion_counts)

    @property
    def gone(self) -> tuple[int, int]:
        """Return the objects and bytes that are gone; bytes as measured, otherwise as the owner states them."""
        objects = size = 0
        for counts in self.by_vault.values():
            objects += counts.get(KeyOutcome.DELETED, 0) + counts.get(KeyOutcome.HIDDEN, 0)
            size += counts.get("bytes_freed", 0) + counts.get("bytes_estimated", 0)
        return objects, size

    def counts(self, settlement: Settlement) -> Mapping[str, Mapping[str, int]]:
        """Return what to add to the round's counts, by vault; only failures are counted before the mark has ended."""
        ended = settlement in ENDED
        return {vault: _counted(counts, ended=ended) for vault, counts in self.by_vault.items()}


def _counted(counts: Mapping[str, int], *, ended: bool) -> Mapping[str, int]:
    """Return counts of files and bytes by the names that the round has for them. Pure."""
    failed = sum(counts.get(outcome, 0) for outcome in FAILURES)
    counted = {str(name): number for name, number in counts.items() if ended and name not in FAILURES}
    return {**counted, "failed": failed} if failed else counted
