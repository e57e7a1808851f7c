"""Decide when a mark is due, in which order kinds are deleted, and into how many shards a kind is divided. Pure.

Instants are in ms since 1970 on the database's clock; ``now`` is an argument.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from sexton.kernel.errors import BadInput
from sexton.recycle.planning.model import OwnerPolicy, Policy

SHARD_OBJECTS = 100_000
"""Objects of a shard: a kind with more has a second one, which other threads and workers delete beside it."""
MOST_SHARDS = 16


def policy(
    retention_seconds: Mapping[str, int],
    upload_grace_seconds: int,
    after: Mapping[str, Collection[str]] | None = None,
    *,
    owners: Mapping[str, OwnerPolicy] | None = None,
    unlimited: Collection[str] | None = None,
    max_delete_objects: int = 0,
    max_delete_fraction: float = 0.0,
    fallback_retention_seconds: int | None = None,
) -> Policy:
    """Return the policy of these settings; its version is a digest, so equal settings have equal versions.

    The limits are not part of the version: a plan that waits for approval outlives a change of them.

    Args:
        retention_seconds: kind → seconds from the mark until it is due.
        upload_grace_seconds: time until a deleted prefix is listed a second time.
        after: kind → kinds that are deleted before it.
        owners: owner → what only its instances have; see ``for_owner``.
        unlimited: kinds that do not count against the limits; None: there are no limits.
        max_delete_objects: objects of the other kinds that may be deleted within 24 hours without approval.
        max_delete_fraction: the same as a fraction of the live objects, where their number is known.
        fallback_retention_seconds: of kinds that have no retention of their own; None: their marks are kept.

    Raises:
        BadInput: ``after`` contains a circle.
    """
    retention = dict(sorted(retention_seconds.items()))
    order = {kind: tuple(sorted(before)) for kind, before in sorted((after or {}).items()) if before}
    of_owners = dict(sorted((owners or {}).items()))
    digested: list[object] = [retention, upload_grace_seconds]
    if order or of_owners:
        digested.append(order)
    if of_owners:
        digested.append({owner: json.loads(own.model_dump_json()) for owner, own in of_owners.items()})
    if fallback_retention_seconds is not None:
        digested.append({"fallback": fallback_retention_seconds})
    version = hashlib.sha256(json.dumps(digested, sort_keys=True).encode()).hexdigest()[:12]
    waves(retention, order)
    return Policy(
        version=version,
        retention_seconds=retention,
        upload_grace_seconds=upload_grace_seconds,
        after=order,
        owners=of_owners,
        unlimited=None if unlimited is None else tuple(sorted(unlimited)),
        max_delete_objects=max_delete_objects,
        max_delete_fraction=max_delete_fraction,
        fallback_retention_seconds=fallback_retention_seconds,
    )


def for_owner(policy: Policy, owner: str) -> Policy:
    """Return the policy for instances of one owner: its own kinds and their order win over those of the settings.

    A kind of the same name that another owner has shares none of their properties.
    """
    own = policy.owners.get(owner, OwnerPolicy(retention_seconds={}))
    after = {kind: before for kind, before in policy.after.items() if kind not in own.retention_seconds}
    return policy.model_copy(
        update={
            "retention_seconds": {**policy.retention_seconds, **own.retention_seconds},
            "after": {**after, **own.after},
            "fileless": own.fileless,
            "unlimited": None if policy.unlimited is None else tuple(sorted({*policy.unlimited, *own.unlimited})),
        }
    )


def waves(kinds: Collection[str], after: Mapping[str, Collection[str]]) -> Sequence[Sequence[str]]:
    """Return the kinds in waves: those of one wave are deleted at the same time, each after all that must precede it.

    Args:
        kinds: the kinds of a plan.
        after: kind → kinds that must precede it; those that the plan does not contain are ignored.

    Raises:
        BadInput: the order contains a circle.
    """
    order = TopologicalSorter({k: set(kinds).intersection(after.get(k, ())) for k in kinds})
    try:
        order.prepare()
    except CycleError as e:
        raise BadInput(f"the order of kinds is a circle: {' after '.join(e.args[1])}; break it in `after`") from e
    in_order = []
    while ready := order.get_ready():
        in_order.append(sorted(ready))
        order.done(*ready)
    return in_order


def shard_count(marks: int, objects: int) -> int:
    """Return into how many shards so many due marks are divided, which stand for about so many objects."""
    return max(1, min(MOST_SHARDS, marks, -(-objects // SHARD_OBJECTS)))


def cutoff(kind: str, policy: Policy, now: int) -> int | None:
    """Return the latest ``retention_starts_at`` that is due at ``now``, or None for an unknown kind.

    A mark is due when that instant plus its retention is not after now. Marks of an unknown kind are kept.
    """
    retention = policy.retention(kind)
    return None if retention is None else now - retention * 1000
