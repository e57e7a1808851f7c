"""A round's plan has the kinds that need no approval, an operator's plan has everything."""

from sexton.marks.keepers import KeepReason, Kept
from sexton.recycle.planning.build import build_for_operator, build_for_round
from sexton.recycle.planning.limits import Allowance
from sexton.recycle.planning.model import DueKind, InstancePolicy, KindPlan, PlanFacts, Policy

POLICY = Policy(version="v", retention_seconds={"dropped": 600}, upload_grace_seconds=600, unlimited=("compacted",))
TERMS = InstancePolicy("shop", enabled=True, policy=POLICY, agreed={"dropped": 600})
QUARANTINED = Kept(KeepReason.QUARANTINED, "BAD_KEY")
LIMIT = Allowance(100, "max_delete_objects is 100")


def kind(name: str, objects: int) -> KindPlan:
    return KindPlan(kind=name, cutoff=1, marks=objects, objects=objects, limited=name == "dropped")


def facts(*due: KindPlan, instance_policy: InstancePolicy = TERMS, used: int = 0) -> PlanFacts:
    kinds = [DueKind(k, k) for k in due]
    return PlanFacts(
        instance_policy, 9, kinds, kept={QUARANTINED: 1}, claimed=4, used=used, stopped=frozenset(), rejected={}
    )


def test_round_applies_the_kinds_within_the_limit() -> None:
    plan, awaiting = build_for_round(facts(kind("dropped", 100), kind("compacted", 10**6)), LIMIT)

    assert ({k.kind for k in plan.kinds}, awaiting.kinds) == ({"dropped", "compacted"}, ())
    assert (plan.instance, plan.created_at, plan.claimed, plan.allowance) == ("shop", 9, 4, 100)
    assert (plan.kept, plan.whole) == ({QUARANTINED: 1}, False)


def test_kind_over_the_limit_awaits_approval() -> None:
    plan, awaiting = build_for_round(facts(kind("dropped", 101), kind("compacted", 5)), LIMIT)

    assert [k.kind for k in plan.kinds] == ["compacted"]
    assert [k.kind for k in awaiting.kinds] == ["dropped"]
    assert "max_delete_objects is 100" in awaiting.kinds[0].awaits
    assert (awaiting.kept, awaiting.whole) == ({}, True)


def test_objects_of_the_last_day_count_against_the_limit() -> None:
    plan, awaiting = build_for_round(facts(kind("dropped", 60), used=60), LIMIT)

    assert (plan.kinds, len(awaiting.kinds)) == ((), 1)


def test_without_a_limit_a_round_applies_everything() -> None:
    plan, awaiting = build_for_round(facts(kind("dropped", 10**6)), None)

    assert (len(plan.kinds), awaiting.kinds, plan.allowance) == (1, (), None)


def test_an_operators_plan_has_everything_with_its_reasons() -> None:
    plan = build_for_operator(facts(kind("dropped", 101), kind("compacted", 5), kind("empty", 0)), LIMIT)

    assert [k.kind for k in plan.kinds] == ["dropped", "compacted"]
    assert (bool(plan.kinds[0].awaits), plan.kinds[1].awaits, plan.whole) == (True, "", True)


def test_in_an_observing_instance_nothing_awaits_approval() -> None:
    plan = build_for_operator(facts(kind("dropped", 101), instance_policy=TERMS._replace(enabled=False)), LIMIT)

    assert (plan.kinds[0].awaits, plan.whole) == ("", False)


def test_a_limit_is_needed_only_for_limited_kinds() -> None:
    assert facts(kind("dropped", 1)).needs_limit
    assert not facts(kind("compacted", 1), kind("dropped", 0)).needs_limit
