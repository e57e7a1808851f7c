"""Build plans: what a round may delete without an operator's approval, and why the rest awaits one. Pure.

Limits cap deletions that no operator has approved: objects of what people drop are counted over the last 24 hours of an
instance; garbage that no person dropped (inputs of compactions, aborted writes) is not counted. So many mistaken drops
await an approval, while ordinary rounds continue.
"""

from collections.abc import Collection, Mapping, Sequence
from math import floor
from types import MappingProxyType
from typing import NamedTuple

from sexton.recycle.planning.model import DueKind, KindPlan, Plan, PlanFacts, Policy

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

    Args:
        policy: with its limits.
        live: the owner's fresh count of live objects; None where the owner has no count.
        silent: why the owner could not count them this time; then a fraction allows its least.
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

    Args:
        due: what is due, kind by kind.
        limit: how many objects of limited kinds may be deleted within 24 hours; None: there is no limit.
        used: how many of them were claimed without approval within the last 24 hours.
        stopped: kinds of which a round found more objects than were estimated.
        questioned: kinds that need an approval whatever their size, and why.
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

    Args:
        kinds: what is due.
        allowed: how many objects of limited kinds may be deleted within 24 hours.
        used: how many of them were claimed without approval within the last 24 hours.
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
    pairs = zip(planned, measured, strict=True)
    return "; ".join(filter(None, (_explain_change(before, after) for before, after in pairs)))


def explain_policy_change(before: Policy, after: Policy) -> str:
    """Return how two policies of different versions differ, as far as their retentions show it."""
    old, new = before.retention_seconds, after.retention_seconds
    kinds = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    spans = [[span(ages[k]) if k in ages else "none" for ages in (old, new)] for k in kinds]
    changes = [f"retention of {k} {before} → {after}" for k, (before, after) in zip(kinds, spans, strict=True)]
    return ", ".join(changes) or "the order of kinds, the upload grace, or another owner's retentions"


def _explain_change(before: KindPlan, after: KindPlan) -> str:
    """Return how the marks of one kind have changed; empty where they have not."""
    # ``ages`` is a sum over the instants of the marks: all sums are equal only for the same marks.
    if all(getattr(before, sums) == getattr(after, sums) for sums in ("marks", "keys", "prefixes", "bytes", "ages")):
        return ""
    if before.marks == after.marks:
        return f"{before.kind}: {before.marks:,} marks, but different ones"
    reason = "undropped, deleted, claimed or quarantined" if after.marks < before.marks else "added"
    difference = abs(before.marks - after.marks)
    return f"{before.kind}: {before.marks:,} → {after.marks:,} marks ({difference:,} {reason})"


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
