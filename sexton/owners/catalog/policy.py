"""Decisions of the catalog: the answer to a fence, and whether rowsets cover a range of versions. Pure."""

from collections.abc import Collection, Iterable

from sexton.marks.model import Fenced
from sexton.owners.catalog.model import TxnStatus

_COMMITTING = (TxnStatus.PRECOMMITTED, TxnStatus.COMMITTED, TxnStatus.VISIBLE)


def covered(first: int, last: int, ranges: Iterable[tuple[int, int]]) -> bool:
    """Return whether every version from ``first`` to ``last`` (both inclusive) is in one of the ranges."""
    next_version = first
    for start, end in sorted(ranges):
        if start > next_version:
            return False
        next_version = max(next_version, end + 1)
        if next_version > last:
            return True
    return False


def verdict(statuses: Collection[str]) -> tuple[Fenced, str]:
    """Return whether a prepared rowset may be deleted, by statuses read *after* its writer was aborted.

    Args:
        statuses: of the writing transaction and its parent; empty: no record is left.
    """
    for status in statuses:
        if status not in set(TxnStatus):
            return Fenced.UNKNOWN, f"the status {status!r} of its transaction is unknown; repair or remove the record"
    for status in statuses:
        if status in _COMMITTING:
            return Fenced.IN_USE, f"its transaction is {status}"
    if TxnStatus.PREPARED in statuses:
        return Fenced.IN_USE, "its transaction still runs"
    return Fenced.FENCED, "its transaction is aborted" if statuses else "its transaction left no record"
