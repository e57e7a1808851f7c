"""Decisions of the catalog, pure: what a fence answers, and whether visible rowsets cover a range of versions."""

from collections.abc import Collection, Iterable

from sexton.marks.model import Fenced
from sexton.owners.catalog.model import TxnStatus

_USES = (TxnStatus.PRECOMMITTED, TxnStatus.COMMITTED, TxnStatus.VISIBLE)


def covered(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Tell whether every version from ``first`` to ``last`` (both inclusive) is in one of the ranges."""
    reached = first
    for start, end in sorted(ranges):
        if start > reached:
            return False
        reached = max(reached, end + 1)
        if reached > last:
            return True
    return False


def verdict(statuses: Collection[str]) -> tuple[Fenced, str]:
    """Return what becomes of a prepared rowset, by the statuses read *after* its owner was aborted.

    Args:
        statuses: of the owning transaction and the one above it; none where no record is left.
    """
    for status in statuses:
        if status not in set(TxnStatus):
            return Fenced.UNKNOWN, f"the status {status!r} of its transaction is unknown; repair or remove the record"
    for status in statuses:
        if status in _USES:
            return Fenced.IN_USE, f"its transaction is {status}"
    if TxnStatus.PREPARED in statuses:
        return Fenced.IN_USE, "its transaction still runs"
    return Fenced.FENCED, "its transaction is aborted" if statuses else "its transaction left no record"
