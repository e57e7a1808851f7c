"""Decide when an instance has its next round, and what a round adds to its instance's counters. Pure.

Instants are in ms since 1970 on the database's clock; ``now`` is an argument.
"""

from collections import Counter
from typing import Any

from sexton.database.counters import BYTES, NORMAL, OBJECTS, REMOVED, ROUNDS, VAULT
from sexton.marks.model import Reason
from sexton.recycle.model import FAILED, STOPPED, SUCCEEDED, RoundReport
from sexton.recycle.rounds.orders import NOT_ANNOUNCED
from sexton.storage.port import FAULTS, NOT_LISTED

FIRST_RETRY_MS = 30_000
LAST_RETRY_MS = 3_600_000
"""A failed round is tried again after 30 s, then after twice as long each time, up to an hour."""
STATUSES = frozenset({NORMAL, NOT_LISTED, NOT_ANNOUNCED, Reason.UNKNOWN_VAULT, *FAULTS})
"""The statuses of vaults that have counters of their own."""
OTHER = "other"


def turn(previous: int | None, interval_ms: int, now: int) -> int:
    """Return the schedule slot that a round uses which begins now, so that slots stay an interval apart.

    A round that is less than an interval late uses the slot at which it was due. One that begins early, or after whole
    slots were missed, begins a new sequence.
    """
    if previous is None:
        return now
    due = previous + interval_ms
    return due if due <= now < due + interval_ms else now


def next_round(turn_at: int | None, retry_at: int | None, interval_ms: int, now: int) -> int:
    """Return when an instance has its next round; at or before ``now``: as soon as fewer rounds run than may run."""
    if turn_at is None or turn_at > now:  # later than now: the database's clock was ahead before
        return now
    due = turn_at + interval_ms
    return due if retry_at is None else min(due, retry_at)


def retry_at(report: RoundReport, failures: int, now: int) -> int | None:
    """Return when a round that ended is tried again before its next schedule slot, or None.

    A round that could not reach a vault or an owner counts as failed. A stopped one is due at once, and starts when
    nothing halts the instance. A cancelled one is not tried again: an operator ended it.
    """
    if report.state == STOPPED:
        return now
    if _has_failed(report):
        return now + min(LAST_RETRY_MS, FIRST_RETRY_MS << min(failures, 20))
    return None


def after_round(report: RoundReport, failures: int, now: int) -> dict[str, Any]:
    """Return what changes in the row of an instance when its round has ended.

    A success is one that reached the vaults: not in observe mode, and not with a vault at fault.
    """
    values: dict[str, Any] = {"retry_at": retry_at(report, failures, now)}
    if _has_failed(report):
        return values | {"failures": failures + 1}
    is_success = report.state == SUCCEEDED and not report.observed
    return values | ({"failures": 0, "last_success_at": now} if is_success else {})


def _has_failed(report: RoundReport) -> bool:
    return report.state == FAILED or (report.state == SUCCEEDED and bool(report.faults))


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
