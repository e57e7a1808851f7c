"""Sum up the outcomes of a claimed mark's files, and decide how the mark is settled. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sexton.marks.model import DONE, SEVERAL, DeletionCounts, Ref, Settlement
from sexton.marks.policy import settlement_of
from sexton.storage.model import KeyOutcome


@dataclass
class DeletionProgress:
    """One mark, and counts over its files by vault. ``absorbed``: the marks that are removed with it."""

    ref: Ref
    vault: str
    failures: int
    deletion_counts: DeletionCounts
    reason: str | None
    by_vault: Mapping[str, Counter[str]]
    absorbed: list[Ref] = field(default_factory=list)

    @classmethod
    def of(cls, mark: Any, files: Iterable[Any]) -> Self:
        """Build it from the mark's row, and from rows of (vault, outcome, files, bytes, unmeasured, reason)."""
        by_vault: dict[str, Counter[str]] = {}
        total: Counter[str | None] = Counter()
        reasons: dict[str | None, str] = {}
        home = mark.vault or SEVERAL
        for row in files:
            total[row.outcome] += int(row.files)
            reasons[row.outcome] = row.reason
            counts = by_vault.setdefault(row.vault, Counter())
            if row.outcome is not None:
                counts[row.outcome] += int(row.files)
            counts["bytes_freed"] += int(row.bytes) if row.outcome == KeyOutcome.DELETED else 0
            counts["bytes_hidden"] += int(row.bytes) if row.outcome == KeyOutcome.HIDDEN else 0
            if row.outcome == KeyOutcome.DELETED and row.unmeasured:
                # As the owner states it; counted once, for any number of vaults.
                by_vault.setdefault(home, Counter())["bytes_estimated"] = int(mark.bytes)
        deletion_counts = DeletionCounts(
            prefix=mark.prefix,
            first_pass_at=mark.first_pass_at,
            files=sum(total.values()),
            done=sum(total[outcome] for outcome in DONE),
            failed=total[KeyOutcome.FAILED],
            changed=total[KeyOutcome.CHANGED],
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
        objects = sum(n[KeyOutcome.DELETED] + n[KeyOutcome.HIDDEN] for n in self.by_vault.values())
        return objects, sum(n["bytes_freed"] + n["bytes_estimated"] for n in self.by_vault.values())

    def counts(self, settlement: Settlement) -> Mapping[str, Counter[str]]:
        """Return what to add to the round's counts, by vault; only failures are counted before the mark has ended."""
        ended = settlement in (Settlement.GONE, Settlement.SECOND_PASS, Settlement.LACKING, Settlement.CHANGED)
        by_vault = {}
        for vault, n in self.by_vault.items():
            counts = Counter({"failed": n[KeyOutcome.FAILED] + n[KeyOutcome.CHANGED]})
            if ended:
                counts.update({outcome.value: n[outcome] for outcome in DONE})
                counts.update({name: n[name] for name in ("bytes_freed", "bytes_hidden", "bytes_estimated")})
            by_vault[vault] = counts
        return by_vault
