"""When a mark is due, in which order kinds go, when an instance has its turn. Pure: ``now`` is an argument."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from sexton.errors import BadInput
from sexton.recycle.model import FAILED, STOPPED, SUCCEEDED, Policy, RoundReport

FIRST_RETRY_MS = 30_000
LAST_RETRY_MS = 3_600_000
"""A failed round is tried again after 30 s, then after twice as long each time, an hour at most."""


def policy(
    retention_seconds: Mapping[str, int], upload_grace_seconds: int, after: Mapping[str, Collection[str]] | None = None
) -> Policy:
    """Return the policy of these settings; its version is a digest, so equal settings have equal versions.

    Raises:
        BadInput: ``after`` (kind → kinds that go before it) leads in a circle.
    """
    retention = dict(sorted(retention_seconds.items()))
    order = {kind: tuple(sorted(before)) for kind, before in sorted((after or {}).items()) if before}
    text = json.dumps([retention, upload_grace_seconds] + ([order] if order else []))
    version = hashlib.sha256(text.encode()).hexdigest()[:12]
    waves(retention, order)
    return Policy(version=version, retention_seconds=retention, upload_grace_seconds=upload_grace_seconds, after=order)


def waves(kinds: Collection[str], after: Mapping[str, Collection[str]]) -> Sequence[Sequence[str]]:
    """Return the kinds in waves: those of one wave go at the same time, and nothing before what must precede it.

    Args:
        kinds: what is to go.
        after: kind → kinds that must precede it, where they are to go as well.

    Raises:
        BadInput: the order leads in a circle.
    """
    order = TopologicalSorter({k: set(kinds).intersection(after.get(k, ())) for k in kinds})
    try:
        order.prepare()
    except CycleError as e:
        raise BadInput(f"{' after '.join(e.args[1])}: that is a circle; break it in `after`") from e
    found = []
    while ready := order.get_ready():
        found.append(sorted(ready))
        order.done(*ready)
    return found


def turn(previous: int | None, interval_ms: int, now: int) -> int:
    """Return the turn a round that begins now is counted for, so that turns stay an interval apart.

    A round a little late takes the turn it was due at; one that comes early, or after whole turns were missed, begins
    a new sequence.
    """
    if previous is None:
        return now
    due = previous + interval_ms
    return due if due <= now < due + interval_ms else now


def next_round(turn_at: int | None, retry_at: int | None, interval_ms: int, now: int) -> int:
    """Return when an instance has its next round; at or before ``now``: as soon as a slot is free."""
    if turn_at is None or turn_at > now:  # later than now: the database's clock was ahead once
        return now
    due = turn_at + interval_ms
    return due if retry_at is None else min(due, retry_at)


def retry_at(report: RoundReport, failures: int, now: int) -> int | None:
    """Return when a round that ended is to be tried again before its next turn, or None.

    One that could not reach a vault or an owner counts as failed. A stopped one is due at once, and starts when nothing
    halts it any more; a cancelled one was meant to end.
    """
    if report.state == STOPPED:
        return now
    if report.state == FAILED or (report.state == SUCCEEDED and report.faults):
        return now + min(LAST_RETRY_MS, FIRST_RETRY_MS << min(failures, 20))
    return None


def cutoff(kind: str, policy: Policy, now: int) -> int | None:
    """Return the latest ``coalesce(expires_at, marked_at)`` that is due at ``now``, or None for an unknown kind.

    A mark is due when that instant plus its retention is not after now; an unknown kind has none: kept.
    """
    retention = policy.retention_seconds.get(kind)
    return None if retention is None else now - retention * 1000
