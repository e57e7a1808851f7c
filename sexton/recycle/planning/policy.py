"""When a mark is due, in which order kinds go, when an instance has its turn. Pure: ``now`` is an argument."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from sexton.kernel.errors import BadInput
from sexton.recycle.model import FAILED, STOPPED, SUCCEEDED, Policy, RoundReport

FIRST_RETRY_MS = 30_000
LAST_RETRY_MS = 3_600_000
"""A failed round is tried again after 30 s, then after twice as long each time, an hour at most."""


CATALOG = "catalog"
ORDER: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    CATALOG: {
        **dict.fromkeys(("compacted", "prepared", "index", "partition"), ("tablet",)),
        "dropped": ("compacted", "tablet"),
        "table": ("index", "partition", "tablet"),
    }
}
"""Owner → kind → kinds that go before it: a tablet's prefix takes its rowsets' files along; a
compaction's inputs need the record of its output, dropped or not, to show that their versions are held elsewhere."""
FILELESS = frozenset({"table", "index", "partition", "txn_label"})
"""Kinds of the catalog that are records alone: they never delete an object."""


def policy(
    retention_seconds: Mapping[str, int],
    upload_grace_seconds: int,
    after: Mapping[str, Collection[str]] | None = None,
    *,
    owners: Mapping[str, Mapping[str, int]] | None = None,
    unlimited: Collection[str] | None = None,
    max_delete_objects: int = 0,
    max_delete_fraction: float = 0.0,
) -> Policy:
    """Return the policy of these settings; its version is a digest, so equal settings have equal versions.

    The limits are not part of the version: a plan that waits for approval outlives a change of them.

    Args:
        retention_seconds: kind → seconds from the mark until it is due.
        upload_grace_seconds: until a deleted prefix is listed once more.
        after: kind → kinds that go before it.
        owners: owner → its own kinds → seconds; see ``for_owner``.
        unlimited: kinds that do not count against the limits; None: there are no limits.
        max_delete_objects: objects of the other kinds that may go within 24 hours without anybody being asked.
        max_delete_fraction: the same as a part of the live objects, where those are known.

    Raises:
        BadInput: ``after`` leads in a circle.
    """
    retention = dict(sorted(retention_seconds.items()))
    order = {kind: tuple(sorted(before)) for kind, before in sorted((after or {}).items()) if before}
    own = {owner: dict(sorted(kinds.items())) for owner, kinds in sorted((owners or {}).items())}
    told = [retention, upload_grace_seconds, *([order] if order or own else []), *([own] if own else [])]
    version = hashlib.sha256(json.dumps(told).encode()).hexdigest()[:12]
    waves(retention, order)
    return Policy(
        version=version,
        retention_seconds=retention,
        upload_grace_seconds=upload_grace_seconds,
        after=order,
        owners=own,
        unlimited=None if unlimited is None else tuple(sorted(unlimited)),
        max_delete_objects=max_delete_objects,
        max_delete_fraction=max_delete_fraction,
    )


def for_owner(policy: Policy, owner: str) -> Policy:
    """Return the policy for instances of one owner: its own kinds and their order win over what the settings name."""
    own, order = policy.owners.get(owner, {}), ORDER.get(owner, {})
    after = {kind: before for kind, before in policy.after.items() if kind not in own}
    return policy.model_copy(
        update={"retention_seconds": {**policy.retention_seconds, **own}, "after": {**after, **order}}
    )


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
