"""Build plans from what is due: what a round may delete, and what awaits approval. Pure."""

from sexton.recycle.planning.limits import Allowance, divide
from sexton.recycle.planning.model import Plan, PlanFacts


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
