"""Decide when a mark is due, in which order kinds are deleted, and into how many shards a kind is divided; build plans.

A plan says what a round may delete without an operator's approval, and why the rest awaits one. Pure; instants are in
ms since 1970 on the database's clock, and ``now`` is an argument.

Limits cap deletions that no operator has approved: objects of what people drop are counted over the last 24 hours of an
instance; garbage that no person dropped (inputs of compactions, aborted writes) is not counted. So many mistaken drops
await an approval, while ordinary rounds continue.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from math import floor
from types import MappingProxyType
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.marks.model import Cutoff
from sexton.marks.policy import due_by
from sexton.recycle.planning.model import DueKind, KindPlan, OwnerPolicy, Plan, PlanFacts, Policy

MIN_FRACTION_OBJECTS = 1_000
"""The least that ``max_delete_fraction`` allows: a tenth of a few objects is no reason to ask an operator."""
ASSUMED_OBJECTS = 10
"""Objects assumed under a prefix while no mark of its kind has been deleted."""


FRACTION_IS_OFF = (
    "max_delete_fraction is not in force, because the number of live objects is unknown: "
    "the owner shows no live view, or prefixes in it"
)


class Allowance(NamedTuple):
    """How many objects may be deleted within 24 hours without approval, and the setting that says so.

    ``note``: which limit is not in force, and why.
    """

    objects: int
    reason: str
    note: str = ""


def allowance(policy: Policy, live: int | None, silent: str = "") -> Allowance | None:
    """Return the limit of 24 hours, None where the policy has none.

    ``live``: the owner's fresh count of live objects; None where it has no count. ``silent``: why it could not count
    them this time; then a fraction allows its least.
    """
    if policy.unlimited is None:
        return None
    by_objects = Allowance(policy.max_delete_objects, f"max_delete_objects is {policy.max_delete_objects:,}")
    if silent:
        reason = f"only {MIN_FRACTION_OBJECTS:,} are allowed while the owner cannot count its live objects ({silent})"
        by_fraction = Allowance(MIN_FRACTION_OBJECTS, reason)
    elif live is None:
        return by_objects._replace(note=FRACTION_IS_OFF if policy.max_delete_fraction < 1 else "")
    else:
        fraction = policy.max_delete_fraction
        objects = max(MIN_FRACTION_OBJECTS, floor(fraction * live))
        reason = f"max_delete_fraction {fraction:g} of {live:,} live objects allows {objects:,} "
        by_fraction = Allowance(objects, f"{reason}(never fewer than {MIN_FRACTION_OBJECTS:,})")
    return min(by_objects, by_fraction, key=lambda a: a.objects)


def is_limited(kind: str, policy: Policy) -> bool:
    """Return whether a kind counts against the limits."""
    return policy.unlimited is not None and kind not in policy.unlimited


def divide(
    due: Sequence[DueKind],
    limit: Allowance | None,
    used: int,
    stopped: Collection[str] = (),
    questioned: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[KindPlan], list[KindPlan]]:
    """Return what a round may delete now, and what awaits approval, with the reason on each kind of the second list.

    ``limit``: how many objects of limited kinds may be deleted within 24 hours without approval; None: there is no
    limit. ``used``: how many were claimed so within the last 24 hours. ``stopped``: kinds of which a round found more
    objects than were estimated. ``questioned``: kinds that need an approval whatever their size, and why.
    """
    underestimated = {d.whole.kind for d in due if d.whole.kind in stopped and d.whole.limited and d.agreed.marks}
    exceeding: Collection[str] = ()
    if limit is not None:
        measured = [d.agreed for d in due if d.whole.kind not in underestimated | questioned.keys()]
        exceeding = underestimated | kinds_over_limit(measured, limit.objects, used)
    allowed: list[KindPlan] = []
    awaiting: list[KindPlan] = []
    for d in due:
        kind = d.whole.kind
        if kind in questioned and d.whole.marks:
            awaiting.append(_awaiting(d, f"{kind}: {questioned[kind]}", stopped=False))
        elif limit is not None and kind in exceeding:
            reason = explain_over_limit(d.whole, limit, used)
            if kind in underestimated:
                reason += "; a round found more objects than estimated and stopped at the limit"
            awaiting.append(_awaiting(d, reason, stopped=kind in underestimated))
        else:
            if d.agreed.marks:
                allowed.append(d.agreed)
            if d.early is not None:
                awaiting.append(d.early.model_copy(update={"awaits": d.early_reason}))
    return allowed, awaiting


def _awaiting(due: DueKind, reason: str, *, stopped: bool) -> KindPlan:
    """Return a kind that awaits approval as a whole, with this reason and that of its early part."""
    awaits = "; ".join(filter(None, (reason, due.early_reason)))
    return due.whole.model_copy(update={"awaits": awaits, "stopped": stopped})


def kinds_over_limit(kinds: Sequence[KindPlan], allowed: int, used: int) -> frozenset[str]:
    """Return the limited kinds that do not fit under the limit. A kind fits as a whole or not; the smallest go first.

    ``allowed`` and ``used``: as in ``divide``.
    """
    left = max(0, allowed - used)
    exceeding = set()
    for kind in sorted((k for k in kinds if k.limited), key=lambda k: (k.unheld.objects, k.kind)):
        if kind.unheld.objects > left:
            exceeding.add(kind.kind)
        else:
            left -= kind.unheld.objects
    return frozenset(exceeding)


def shortened(agreed: Mapping[str, int], configured: Mapping[str, int]) -> dict[str, int]:
    """Return the kinds whose configured retention is shorter than the agreed one, with the agreed one in seconds."""
    return {kind: agreed[kind] for kind, seconds in configured.items() if seconds < agreed.get(kind, seconds)}


def explain_over_limit(kind: KindPlan, limit: Allowance, used: int) -> str:
    """Return why a kind that does not fit under the limit awaits approval."""
    about = "about " if kind.estimated else ""
    held = f" beside {kind.marks - kind.unheld.marks:,} held ones" if kind.held else ""
    return (
        f"{kind.kind}: {kind.unheld.marks:,} marks with {about}{kind.unheld.objects:,} objects are due{held}, "
        f"{used:,} objects were claimed without approval in the last 24 h, and {limit.reason}"
    )


def explain_early(kind: str, marks: int, before: int, after: int) -> str:
    """Return why marks that only a shorter retention makes due await approval; both retentions in seconds."""
    are_due = "1 mark is due" if marks == 1 else f"{marks:,} marks are due"
    return f"{kind}: {are_due} only because its retention was shortened from {span(before)} to {span(after)}"


def span(seconds: int) -> str:
    """Return a time span for people, in the largest unit that needs no fraction."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds and seconds % size == 0 and seconds >= (2 * size if size == 86_400 else size):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def explain_difference(planned: Sequence[KindPlan], measured: Sequence[KindPlan]) -> str:
    """Return how the marks of a plan differ from those measured now, kind by kind; empty where they do not differ."""
    changes: list[str] = []
    for before, after in zip(planned, measured, strict=True):
        if before.marks != after.marks:
            reason = "undropped, deleted, claimed or quarantined" if after.marks < before.marks else "added"
            difference = f"{abs(before.marks - after.marks):,} {reason}"
            changes.append(f"{before.kind}: {before.marks:,} → {after.marks:,} marks ({difference})")
        elif any(getattr(before, name) != getattr(after, name) for name in ("keys", "prefixes", "bytes", "ages")):
            # ``ages`` is a sum over the instants of the marks: all sums are equal only for the same marks.
            changes.append(f"{before.kind}: {before.marks:,} marks, but different ones")
    return "; ".join(changes)


def explain_policy_change(before: Policy, after: Policy) -> str:
    """Return how two policies of different versions differ, as far as their retentions show it."""
    old, new = before.retention_seconds, after.retention_seconds
    kinds = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    spans = [[span(ages[k]) if k in ages else "none" for ages in (old, new)] for k in kinds]
    changes = [f"retention of {k} {before} → {after}" for k, (before, after) in zip(kinds, spans, strict=True)]
    return ", ".join(changes) or "the order of kinds, the upload grace, or another owner's retentions"


def build_for_operator(facts: PlanFacts, limit: Allowance | None) -> Plan:
    """Return a plan of everything that is due: an operator reviews it and applies it as a whole.

    Where the instance only observes, nothing awaits approval: nothing is deleted.
    """
    _, awaiting = divide(facts.due, limit, facts.used, facts.stopped, facts.questioned)
    reasons = {kind.kind: kind.awaits for kind in awaiting} if facts.instance_policy.enabled else {}
    kinds = (due.whole.model_copy(update={"awaits": reasons.get(due.whole.kind, "")}) for due in facts.due)
    whole = {"kinds": tuple(kind for kind in kinds if kind.marks), "whole": facts.instance_policy.enabled}
    return _empty_plan(facts, limit).model_copy(update=whole)


def build_for_round(facts: PlanFacts, limit: Allowance | None) -> tuple[Plan, Plan]:
    """Return the plan that a round applies now, and the plan that awaits approval; the second may have no kinds."""
    plan = _empty_plan(facts, limit)
    unapproved, awaiting = divide(facts.due, limit, facts.used, facts.stopped, facts.questioned)
    allowance = limit.objects if limit is not None else None
    return (
        plan.model_copy(update={"kinds": tuple(unapproved), "allowance": allowance}),
        plan.model_copy(update={"kinds": tuple(awaiting), "kept": {}, "whole": True}),
    )


def _empty_plan(facts: PlanFacts, limit: Allowance | None) -> Plan:
    return Plan(
        instance=facts.instance_policy.instance,
        created_at=facts.now,
        policy=facts.instance_policy.policy,
        kept=dict(facts.kept),
        claimed=facts.claimed,
        note=limit.note if limit is not None else "",
    )


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

    ``after``: kind → kinds that must precede it; those that the plan does not contain are ignored.

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


def cutoff(kind: str, policy: Policy, now: int) -> Cutoff | None:
    """Return which marks of a kind are due at ``now``, or None for an unknown kind: its marks are kept."""
    retention = policy.retention(kind)
    return None if retention is None else due_by(retention, now)
