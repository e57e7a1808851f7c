"""Decide when an instance has its next round, what a round adds to its counters, and which orders its rows allow. Pure.

Instants are in ms since 1970 on the database's clock; ``now`` is an argument.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from sexton.database.rows import BYTES, NORMAL, OBJECTS, REMOVED, ROUNDS, VAULT
from sexton.marks.model import Cutoff, Lease, LeaseLost, Reason
from sexton.marks.policy import earlier, goes_beyond
from sexton.recycle.model import CANCELLED, FAILED, PARTIAL, STOPPED, SUCCEEDED, OrderRefused, RoundReport
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.planning.model import Plan, Policy
from sexton.recycle.planning.policy import is_limited
from sexton.storage.port import FAULTS, NOT_LISTED

FIRST_RETRY_MS = 30_000
LAST_RETRY_MS = 3_600_000
"""A failed round is tried again after 30 s, then after twice as long each time, up to an hour."""
OVERDUE_MS = 300_000
"""So much later than due a round begins at most that nothing hinders: ticks are a minute apart."""
NOT_ANNOUNCED = "NOT_ANNOUNCED"
"""Why a vault is excluded whose marker was not seen to name the round."""
STATUSES = frozenset({NORMAL, NOT_LISTED, NOT_ANNOUNCED, Reason.UNKNOWN_VAULT, *FAULTS})
"""The statuses of vaults that have counters of their own."""
OTHER = "other"
_REMEDY = "only a round's own workflow may order it (see: sexton round list)"


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


def overdue_since(turn_at: int | None, retry_at: int | None, created_at: int, interval_ms: int, now: int) -> int | None:
    """Return since when an instance is due whose round nothing has begun for long; None: it is not.

    The caller knows that nothing hinders it: no round runs, nothing halts the instance, and a slot is free.
    """
    due = created_at if turn_at is None else next_round(turn_at, retry_at, interval_ms, now)
    return due if due < now - OVERDUE_MS else None


def after_round(report: RoundReport, failures: int, now: int) -> dict[str, Any]:
    """Return what changes in the row of an instance when its round has ended.

    A round that could not reach a vault or an owner counts as failed, and is tried again before its next schedule slot.
    A stopped one is due at once, and starts when nothing halts the instance. A cancelled one is not tried again: an
    operator ended it, and an interval begins. A success is one that reached the vaults: not in observe mode, and not
    with a vault at fault.
    """
    if report.state in (FAILED, PARTIAL):
        wait_ms = min(LAST_RETRY_MS, FIRST_RETRY_MS << min(failures, 20))
        return {"retry_at": now + wait_ms, "failures": failures + 1}
    if report.state == SUCCEEDED and not report.observed:
        return {"retry_at": None, "failures": 0, "last_success_at": now}
    if report.state == CANCELLED:
        return cancelled(now)
    return {"retry_at": now if report.state == STOPPED else None}


def cancelled(now: int) -> dict[str, Any]:
    """Return what changes in the row of an instance whose round an operator ended: its interval begins again."""
    return {"retry_at": None, "turn_at": now}


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


class RoundFacts(NamedTuple):
    """What the rows say about a round, and about the plan that an order names. Who reaches Temporal can send an order.

    ``cutoffs``: kind → which of its marks are due by an agreed retention; ``due``: by the one in force. ``plan``: None
    if there is none of this instance. ``is_approved``: an operator applied the plan, and this round applies it.
    """

    instance: str
    run: str
    is_running: bool
    policy: Policy
    cutoffs: Mapping[str, Cutoff]
    due: Mapping[str, Cutoff]
    unannounced: frozenset[str]
    plan: Plan | None = None
    is_approved: bool = False


def checked_range(order: RangeOrder, facts: RoundFacts | None) -> RangeOrder:
    """Return the order as far as the rows allow it.

    A retention that was raised after the plan was made protects at once: marks that it covers are not in the order.

    Raises:
        LeaseLost: the round has ended.
        OrderRefused: the rows do not allow it.
    """
    facts = _running(order.round, order.lease, facts)
    kinds = facts.plan.kinds if facts.plan is not None else ()
    planned = next((kind for kind in kinds if kind.kind == order.kind), None)
    if planned is None:
        raise OrderRefused(f"{_range(order)} is in no plan of {facts.instance}; {_REMEDY}")
    if goes_beyond(order.cutoff, planned.cutoff) or order.limit > planned.marks:
        raise OrderRefused(f"{_range(order)} goes beyond plan {order.plan}; {_REMEDY}")
    due = facts.due.get(order.kind)
    if due is None:
        raise OrderRefused(f"{_range(order)} is refused: this kind has no retention any longer, so its marks are kept")
    order = order.model_copy(update={"cutoff": earlier(order.cutoff, due)})
    if not facts.is_approved:  # then what only an operator's approval allows is refused
        if facts.plan is None or facts.plan.whole:
            raise OrderRefused(f"plan {order.plan} is not approved; to apply it: sexton apply {order.plan}")
        agreed = facts.cutoffs.get(order.kind)
        if agreed is None or goes_beyond(order.cutoff, agreed):
            raise OrderRefused(f"{_range(order)} is younger than its retention allows; {_REMEDY}")
        has_other_limit = order.allowance is None or order.allowance != facts.plan.allowance
        if is_limited(order.kind, facts.policy) and has_other_limit:
            raise OrderRefused(f"{_range(order)} has another limit than plan {order.plan}; {_REMEDY}")
    return order.model_copy(update=_from_rows(order, facts))


def checked_adoption(order: AdoptOrder, facts: RoundFacts | None) -> AdoptOrder:
    """Return the order as far as the rows allow it; raise as ``checked_range``."""
    facts = _running(order.round, order.lease, facts)
    cutoffs = {k: earlier(cutoff, facts.cutoffs[k]) for k, cutoff in order.cutoffs.items() if k in facts.cutoffs}
    return order.model_copy(update={"cutoffs": cutoffs, **_from_rows(order, facts)})


def verified_row(run: str, instance: str, row: Any) -> Any:
    """Return the row of a round; raise ``OrderRefused`` unless it is of the instance and of the workflow run."""
    if row is None or (row.instance, row.run_id) != (instance, run):
        raise OrderRefused(f"{run} is not the run of a round of {instance}; {_REMEDY}")
    return row


def _from_rows(order: RangeOrder | AdoptOrder, facts: RoundFacts) -> dict[str, Any]:
    """Return the fields of an order that the rows may only make stricter."""
    return {
        "upload_grace_seconds": max(order.upload_grace_seconds, facts.policy.upload_grace_seconds),
        "excluded_vaults": dict.fromkeys(sorted(facts.unannounced), NOT_ANNOUNCED) | order.excluded_vaults,
    }


def _running(round_: int, lease: Lease, facts: RoundFacts | None) -> RoundFacts:
    if facts is None or (facts.instance, facts.run) != (lease.instance, lease.owner):
        raise OrderRefused(f"{lease.owner} is not the run of a round {round_} of {lease.instance}; {_REMEDY}")
    if not facts.is_running:
        raise LeaseLost(f"round {round_} of {lease.instance} has ended")
    return facts


def _range(order: RangeOrder) -> str:
    return f"the order for marks of {order.kind} of round {order.round}"
