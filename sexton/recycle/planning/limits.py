"""What may go without a person having looked at it, and what letting a plan go costs. Pure.

Objects of what people drop are counted over the last 24 hours of an instance; garbage that nobody dropped (compaction's
inputs, aborted writes) is not. A mistake of many drops then waits for somebody, while ordinary rounds go on.
"""

from collections.abc import Collection, Mapping, Sequence
from math import floor
from types import MappingProxyType
from typing import NamedTuple

from sexton.recycle.model import KindPlan, Policy
from sexton.recycle.planning.model import DueKind

FEW_OBJECTS = 1_000
"""A fraction never asks about fewer objects than this: a tenth of a handful alarms nobody."""
ASSUMED_OBJECTS = 10
"""Objects taken to be under a prefix while none of its kind has gone yet."""


class Allowance(NamedTuple):
    """How many objects may go within 24 hours unasked, and which setting says so."""

    objects: int
    why: str


def allowance(policy: Policy, live: int | None, silent: str = "") -> Allowance | None:
    """Return the limit of 24 hours, None where the policy has none.

    Args:
        policy: with its limits.
        live: the owner's fresh count of live objects; None where it has none.
        silent: why the owner could not count them this time; then the least that a fraction may be.
    """
    if policy.unlimited is None:
        return None
    whole = Allowance(policy.max_delete_objects, f"max_delete_objects is {policy.max_delete_objects:,}")
    if silent:
        part = Allowance(FEW_OBJECTS, f"{FEW_OBJECTS:,} may while its owner cannot count what is live ({silent})")
    elif live is None:
        return whole
    else:
        few = max(FEW_OBJECTS, floor(policy.max_delete_fraction * live))
        of = f"max_delete_fraction {policy.max_delete_fraction:g} of {live:,} live objects, at least {FEW_OBJECTS:,}"
        part = Allowance(few, f"{few:,} may by {of}")
    return min(whole, part, key=lambda a: a.objects)


def is_limited(kind: str, policy: Policy) -> bool:
    """Return whether a kind counts against the limits."""
    return policy.unlimited is not None and kind not in policy.unlimited


def divide(
    due: Sequence[DueKind],
    limit: Allowance | None,
    used: int,
    stopped: Collection[str] = (),
    rejected: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[KindPlan], list[KindPlan]]:
    """Return what a round may do, and what waits for a person, with the reason on each.

    Args:
        due: what is due.
        limit: how many objects of limited kinds may go within 24 hours; None: there is no limit.
        used: how many of them went within the last 24 hours.
        stopped: kinds of which a round found more than was estimated.
        rejected: kinds of which a person has said that they may not go, and the words.
    """
    found_more = {d.whole.kind for d in due if d.whole.kind in stopped and d.whole.limited and d.agreed.marks}
    measured = [d.agreed for d in due if d.whole.kind not in found_more | rejected.keys()]
    too_much = found_more | over(measured, limit.objects, used) if limit is not None else set()
    go, wait = [], []
    for d in due:
        if d.whole.kind in rejected and d.whole.marks:
            why = "; ".join(filter(None, (f"{d.whole.kind}: {rejected[d.whole.kind]}", d.why)))
            wait.append(d.whole.model_copy(update={"awaits": why}))
            continue
        if limit is not None and d.whole.kind in too_much:
            more = "a round found more objects than that and stopped" if d.whole.kind in found_more else ""
            why = "; ".join(filter(None, (over_limit(d.whole, limit, used), more, d.why)))
            wait.append(d.whole.model_copy(update={"awaits": why, "stopped": bool(more)}))
            continue
        if d.agreed.marks:
            go.append(d.agreed)
        if d.early is not None:
            wait.append(d.early.model_copy(update={"awaits": d.why}))
    return go, wait


def over(kinds: Sequence[KindPlan], allowed: int, used: int) -> frozenset[str]:
    """Return the kinds that do not fit any more, whole kinds only, the smallest first.

    Args:
        kinds: what is due.
        allowed: how many objects of limited kinds may go within 24 hours.
        used: how many of them went within the last 24 hours.
    """
    room, found = max(0, allowed - used), set()
    for k in sorted((k for k in kinds if k.limited), key=lambda k: (k.objects, k.kind)):
        if k.objects > room:
            found.add(k.kind)
        else:
            room -= k.objects
    return frozenset(found)


def shortened(agreed: Mapping[str, int], wanted: Mapping[str, int]) -> dict[str, int]:
    """Return the kinds whose retention is shorter than a person has agreed to, with the seconds agreed."""
    return {kind: agreed[kind] for kind, seconds in wanted.items() if seconds < agreed.get(kind, seconds)}


def over_limit(kind: KindPlan, limit: Allowance, used: int) -> str:
    """Return why a kind waits that does not fit."""
    about = "about " if kind.estimated else ""
    return (
        f"{kind.kind}: {kind.marks:,} marks with {about}{kind.objects:,} objects are due, "
        f"{used:,} objects went unasked in the last 24 h, and {limit.why}"
    )


def too_early(kind: str, marks: int, before: int, after: int) -> str:
    """Return why marks wait that only a shorter retention makes due; both in seconds."""
    due = "1 mark is due" if marks == 1 else f"{marks:,} marks are due"
    return f"{kind}: {due} only because its retention was shortened from {span(before)} to {span(after)}"


def span(seconds: int) -> str:
    """Return seconds for people, in the largest unit that needs no fraction."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds and seconds % size == 0 and seconds >= (2 * size if size == 86_400 else size):
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def difference(planned: Sequence[KindPlan], found: Sequence[KindPlan]) -> str:
    """Return how the marks of a plan differ from those found now, kind by kind; empty where they do not."""
    return "; ".join(said for a, b in zip(planned, found, strict=True) if (said := _changed(a, b)))


def changed(before: Policy, after: Policy) -> str:
    """Return how two policies of different versions differ, as far as retentions tell."""
    old, new = before.retention_seconds, after.retention_seconds
    kinds = sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k))
    said = [f"retention of {k} {_span(old.get(k))} → {_span(new.get(k))}" for k in kinds]
    return ", ".join(said) or "the order of kinds, the upload grace, or another owner's retentions"


def _span(seconds: int | None) -> str:
    return "none" if seconds is None else span(seconds)


def _changed(a: KindPlan, b: KindPlan) -> str:
    if (a.marks, a.keys, a.prefixes, a.bytes, a.ages) == (b.marks, b.keys, b.prefixes, b.bytes, b.ages):
        return ""
    if a.marks == b.marks:
        return f"{a.kind}: {a.marks:,} marks, but not the same"
    why = "taken back, gone, claimed or set aside" if b.marks < a.marks else "came back"
    return f"{a.kind}: {a.marks:,} → {b.marks:,} marks ({abs(a.marks - b.marks):,} {why})"
