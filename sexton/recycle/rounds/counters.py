"""Decide what a round adds to its instance's counters. Pure."""

from collections import Counter

from sexton.database.counters import BYTES, NORMAL, OBJECTS, REMOVED, ROUNDS, VAULT
from sexton.marks.model import Reason
from sexton.recycle.model import RoundReport
from sexton.recycle.rounds.orders import NOT_ANNOUNCED
from sexton.storage.port import FAULTS, NOT_LISTED

STATUSES = frozenset({NORMAL, NOT_LISTED, NOT_ANNOUNCED, Reason.UNKNOWN_VAULT, *FAULTS})
"""The statuses of vaults that have counters of their own."""
OTHER = "other"


def counters_of(report: RoundReport) -> Counter[tuple[str, str]]:
    """Return the increments of a round, by (name, label); a round in observe mode adds nothing."""
    counts: Counter[tuple[str, str]] = Counter()
    if report.observed:
        return counts
    counts[ROUNDS, "*"] = 1
    for kind in report.kinds:
        counts[ROUNDS, kind.kind] += 1
        counts[REMOVED, kind.kind] += kind.removed
        counts[OBJECTS, kind.kind] += kind.deleted + kind.hidden
        counts[BYTES, kind.kind] += kind.bytes
    for vault, status in report.vaults.items():
        counts[VAULT, f"{vault}/{status if status in STATUSES else OTHER}"] += 1
    return counts
