"""A round's plan has the kinds that need no approval, an operator's plan has everything."""

from hypothesis import given
from hypothesis import strategies as st

from sexton.marks.kept import KeepReason, Kept
from sexton.recycle.planning.model import DueKind, InstancePolicy, KindPlan, PlanFacts, Policy
from sexton.recycle.planning.policy import Allowance, build_for_operator, build_for_round

POLICY = Policy(version="v", retention_seconds={"dropped": 600}, upload_grace_seconds=600, unlimited=("compacted",))
TERMS = InstancePolicy("shop", enabled=True, policy=POLICY, agreed={"dropped": 600})
QUARANTINED = Kept(KeepReason.QUARANTINED, "BAD_KEY")
LIMIT = Allowance(100, "max_delete_objects is 100")


def kind(name: str, objects: int) -> KindPlan:
    return KindPlan(kind=name, cutoff=1, marks=objects, objects=objects, limited=name == "dropped")


def facts(*due: KindPlan, instance_policy: InstancePolicy = TERMS, used: int = 0) -> PlanFacts:
    kinds = [DueKind(k, k) for k in due]
    return PlanFacts(
        instance_policy, 9, kinds, kept={QUARANTINED: 1}, claimed=4, used=used, stopped=frozenset(), questioned={}
    )


def test_round_applies_the_kinds_within_the_limit() -> None:
    plan, awaiting = build_for_round(facts(kind("dropped", 100), kind("compacted", 10**6)), LIMIT)

    assert ({k.kind for k in plan.kinds}, awaiting.kinds) == ({"dropped", "compacted"}, ())
    assert (plan.instance, plan.created_at, plan.claimed, plan.allowance) == ("shop", 9, 4, 100)
    assert (plan.kept, plan.whole) == ({QUARANTINED: 1}, False)


def test_kind_over_the_limit_awaits_approval() -> None:
    plan, awaiting = build_for_round(facts(kind("dropped", 101), kind("compacted", 5)), LIMIT)

    assert ([k.kind for k in plan.kinds], [k.kind for k in awaiting.kinds]) == (["compacted"], ["dropped"])
    assert "max_delete_objects is 100" in awaiting.kinds[0].awaits
    assert (awaiting.kept, awaiting.whole) == ({}, True)


def test_only_what_fits_beside_the_last_day_is_applied() -> None:
    used, awaiting = build_for_round(facts(kind("dropped", 60), used=60), LIMIT)
    unlimited, none = build_for_round(facts(kind("dropped", 10**6)), None)

    assert (used.kinds, len(awaiting.kinds)) == ((), 1)
    assert (len(unlimited.kinds), none.kinds, unlimited.allowance) == (1, (), None)
    assert facts(kind("dropped", 1)).needs_limit
    assert not facts(kind("compacted", 1), kind("dropped", 0)).needs_limit


def test_an_operators_plan_has_everything_with_its_reasons() -> None:
    observing = TERMS._replace(enabled=False)

    plan = build_for_operator(facts(kind("dropped", 101), kind("compacted", 5), kind("empty", 0)), LIMIT)
    observed = build_for_operator(facts(kind("dropped", 101), instance_policy=observing), LIMIT)

    assert [k.kind for k in plan.kinds] == ["dropped", "compacted"]
    assert (bool(plan.kinds[0].awaits), plan.kinds[1].awaits, plan.whole) == (True, "", True)
    assert (observed.kinds[0].awaits, observed.whole) == ("", False)


@st.composite
def plan_facts(draw: st.DrawFn) -> PlanFacts:
    """Draw what is due: kinds within or above a limit, rejected, stopped, or due only by a shortened retention."""
    due = []
    for name in draw(st.lists(st.sampled_from(("a", "b", "c", "d")), unique=True)):
        limited, agreed, early = draw(st.booleans()), draw(st.integers(0, 9)), draw(st.integers(0, 5))
        whole, by_agreed, by_shorter = (
            KindPlan(kind=name, cutoff=1, marks=n, objects=2 * n, limited=limited)
            for n in (agreed + early, agreed, early)
        )
        due.append(DueKind(whole, by_agreed, by_shorter, "too early") if early else DueKind(whole, whole))
    names = st.sampled_from(("a", "b", "c", "d", "unknown"))
    return PlanFacts(
        TERMS._replace(enabled=draw(st.booleans())),
        now=9,
        due=due,
        kept={},
        claimed=0,
        used=draw(st.integers(0, 20)),
        stopped=draw(st.frozensets(names, max_size=2)),
        questioned=draw(st.dictionaries(names, st.just("anna rejected it"), max_size=2)),
    )


LIMITS = st.none() | st.builds(Allowance, st.integers(0, 40), st.just("that is the limit"))


@given(plan_facts(), LIMITS)
def test_each_due_mark_is_in_one_plan_of_a_round(due_facts: PlanFacts, limit: Allowance | None) -> None:
    plan, awaiting = build_for_round(due_facts, limit)

    for due in due_facts.due:
        planned = [k.marks for k in (*plan.kinds, *awaiting.kinds) if k.kind == due.whole.kind]
        assert sum(planned) == due.whole.marks
        assert 0 not in planned


@given(plan_facts(), LIMITS)
def test_a_round_deletes_nothing_that_needs_approval(due_facts: PlanFacts, limit: Allowance | None) -> None:
    plan, awaiting = build_for_round(due_facts, limit)

    agreed = {due.whole.kind: due.agreed.marks for due in due_facts.due}
    for allowed in plan.kinds:
        assert allowed.kind not in due_facts.questioned
        assert (allowed.awaits, allowed.marks) == ("", agreed[allowed.kind])
        if limit is not None and allowed.limited:
            assert allowed.kind not in due_facts.stopped
    if limit is not None:
        limited = sum(k.objects for k in plan.kinds if k.limited)
        assert limited <= max(0, limit.objects - due_facts.used)
    assert all(k.awaits for k in awaiting.kinds)


@given(plan_facts(), LIMITS)
def test_an_operator_sees_every_due_kind_once(due_facts: PlanFacts, limit: Allowance | None) -> None:
    plan = build_for_operator(due_facts, limit)
    _, awaiting = build_for_round(due_facts, limit)

    assert [(k.kind, k.marks) for k in plan.kinds] == [
        (due.whole.kind, due.whole.marks) for due in due_facts.due if due.whole.marks
    ]
    waits = {k.kind for k in awaiting.kinds} if due_facts.instance_policy.enabled else set()
    assert {k.kind for k in plan.kinds if k.awaits} == waits
