"""Limits, approvals and estimates are computed correctly."""

import pytest

from sexton.recycle.model import KindReport, RoundReport
from sexton.recycle.planning import policy
from sexton.recycle.planning.model import ASSUMED_KEYS_PER_SECOND, DueKind, KindPlan, Plan, Policy, estimate, rate
from sexton.recycle.planning.policy import (
    Allowance,
    allowance,
    divide,
    explain_difference,
    explain_early,
    is_limited,
    kinds_over_limit,
    shortened,
    span,
)

POLICY = Policy(
    version="v",
    retention_seconds={},
    upload_grace_seconds=600,
    unlimited=("compacted",),
    max_delete_objects=5_000,
    max_delete_fraction=0.1,
)


def kind(name: str, objects: int, *, limited: bool = True, **more: object) -> KindPlan:
    return KindPlan.model_validate(
        {"kind": name, "cutoff": 100, "marks": objects, "keys": objects, "objects": objects, "limited": limited, **more}
    )


def due(name: str, objects: int, *, limited: bool = True) -> DueKind:
    """Return a kind of which all marks are due by the agreed retention."""
    whole = kind(name, objects, limited=limited)
    return DueKind(whole, whole)


def test_stricter_limit_applies_and_fraction_allows_1000() -> None:
    limits = {None: 5_000, 100_000: 5_000, 49_999: 4_999, 50_000: 5_000, 9_999: 1_000, 0: 1_000}
    few = POLICY.model_copy(update={"max_delete_objects": 3})
    silent = allowance(POLICY, None, "no answer")

    assert {live: limit.objects for live in limits if (limit := allowance(POLICY, live))} == limits
    assert allowance(few, 50_000) == Allowance(3, "max_delete_objects is 3")
    assert silent is not None
    assert (silent.objects, "no answer" in silent.reason) == (1_000, True)
    assert allowance(POLICY.model_copy(update={"unlimited": None}), 10) is None  # an old policy


def test_n3_a_fraction_that_is_not_in_force_says_so() -> None:
    uncounted, counted = allowance(POLICY, None), allowance(POLICY, 50_000)
    without = allowance(POLICY.model_copy(update={"max_delete_fraction": 1.0}), None)

    assert uncounted is not None
    assert "max_delete_fraction is not in force" in uncounted.note
    assert [limit.note for limit in (counted, without) if limit is not None] == ["", ""]


def test_a_shortened_retention_is_explained_with_both_spans() -> None:
    assert shortened({"a": 10, "b": 10, "c": 10, "gone": 1}, {"a": 9, "b": 10, "c": 11, "new": 1}) == {"a": 10}
    assert explain_early("d", 1, 172_800, 3_600) == (
        "d: 1 mark is due only because its retention was shortened from 2 d to 1 h"
    )
    assert explain_early("d", 2_000, 60, 0).startswith("d: 2,000 marks are due only because")


def test_the_smallest_kinds_that_fit_are_deleted() -> None:
    kinds = [kind("big", 900), kind("small", 100), kind("free", 10_000, limited=False), kind("middle", 300)]

    for limit, used, over in (
        (1_000, 0, {"big"}),
        (1_300, 0, set()),
        (1_299, 0, {"big"}),
        (1_000, 601, {"middle", "big"}),
        (1_000, 900, {"middle", "big"}),
        (1_000, 2_000, {"small", "middle", "big"}),
    ):
        assert kinds_over_limit(kinds, limit, used) == over
    assert kinds_over_limit([kind("without objects", 0)], 1_000, 5_000) == set()
    assert (is_limited("dropped", POLICY), is_limited("compacted", POLICY)) == (True, False)
    assert not is_limited("dropped", POLICY.model_copy(update={"unlimited": None}))


def test_plan_applies_splits_or_delays_kinds_with_reasons() -> None:
    young = DueKind(kind("young", 8), kind("young", 3, cutoff=50), kind("young", 5, since=50), "too early")

    go, wait = divide([due("fits", 10), due("over", 999), young, due("none", 0)], Allowance(20, "that is the limit"), 2)

    assert [(k.kind, k.marks) for k in go] == [("fits", 10), ("young", 3)]
    assert [(k.kind, k.marks) for k in wait] == [("over", 999), ("young", 5)]
    assert wait[0].awaits == (
        "over: 999 marks with 999 objects are due, "
        "2 objects were claimed without approval in the last 24 h, and that is the limit"
    )
    assert wait[1].awaits == "too early"


def test_kind_over_limit_and_due_too_early_waits_as_a_whole() -> None:
    both = DueKind(kind("d", 60), kind("d", 40, cutoff=50), kind("d", 20, since=50), "too early")

    go, wait = divide([both], Allowance(30, "limit"), 0)

    assert go == []
    assert [(k.marks, k.since) for k in wait] == [(60, 0)]
    assert wait[0].awaits.endswith("and limit; too early")


def test_kind_that_exceeded_its_estimate_waits() -> None:
    go, wait = divide([due("d", 10), due("c", 9, limited=False)], Allowance(100, "limit"), 0, {"d", "c", "unheard of"})

    assert [k.kind for k in go] == ["c"]
    assert [(k.kind, k.stopped) for k in wait] == [("d", True)]
    assert "found more" in wait[0].awaits


def test_without_a_limit_only_marks_due_too_early_wait() -> None:
    young = DueKind(kind("y", 8), kind("y", 3), kind("y", 5), "too early")

    go, wait = divide([due("d", 10**9), young], None, 0, {"d"})

    assert ([k.marks for k in go], [k.marks for k in wait]) == ([10**9, 3], [5])


def test_rejected_kind_waits_and_does_not_count_for_the_limit() -> None:
    no = {"d": "anna said no", "none": "anna said no", "free": "anna said no"}
    young = DueKind(kind("d", 8), kind("d", 3, cutoff=50), kind("d", 5, since=50), "too early")

    all_due = [young, due("fits", 10), due("none", 0), due("free", 4, limited=False)]

    go, wait = divide(all_due, Allowance(10, "limit"), 0, {"d"}, no)

    assert [(k.kind, k.marks) for k in go] == [("fits", 10)]
    assert [(k.kind, k.marks, k.awaits) for k in wait] == [
        ("d", 8, "d: anna said no; too early"),
        ("free", 4, "free: anna said no"),
    ]


def test_seconds_are_shown_in_the_largest_whole_unit() -> None:
    spans = {259_200: "3 d", 86_400: "24 h", 90_000: "25 h", 5_400: "90 min", 601: "601 s", 0: "0 s", 60: "1 min"}

    assert {seconds: span(seconds) for seconds in spans} == spans


def test_difference_is_explained_kind_by_kind() -> None:
    planned = [kind("a", 1_200), kind("b", 5), kind("c", 5), kind("d", 5), kind("e", 5, ages=11)]
    present = [kind("a", 1_100), kind("b", 5), kind("c", 6), kind("d", 5, keys=7), kind("e", 5, ages=12)]

    assert explain_difference(planned, planned) == ""
    assert explain_difference(planned, present) == (
        "a: 1,200 → 1,100 marks (100 undropped, deleted, claimed or quarantined); c: 5 → 6 marks (1 added); "
        "d: 5 marks, but different ones; e: 5 marks, but different ones"
    )


def test_policy_change_names_the_changed_retentions() -> None:
    before = POLICY.model_copy(update={"retention_seconds": {"a": 7_200, "b": 600}})
    after = POLICY.model_copy(update={"retention_seconds": {"a": 3_600, "b": 600, "c": 60}})

    assert policy.explain_policy_change(before, after) == "retention of a 2 h → 1 h, retention of c none → 1 min"
    unchanged = policy.explain_policy_change(before, before)
    assert unchanged == "the order of kinds, the upload grace, or another owner's retentions"


def plan(*kinds: KindPlan) -> Plan:
    return Plan(instance="shop", created_at=0, policy=POLICY, kinds=kinds)


def test_an_estimate_counts_requests_money_and_minutes() -> None:
    keys, prefixes = kind("k", 1_500), kind("p", 4_000, keys=0, prefixes=10, estimated=True)

    cost = estimate(plan(keys, prefixes), 100, list_price=5, delete_price=2, currency="EUR")
    nothing = estimate(plan(), 100, list_price=5, delete_price=2, currency="EUR")

    assert (cost.objects, cost.delete_requests, cost.list_requests) == (5_500, 6, 24)
    assert (cost.money, cost.currency) == (0.132, "EUR")
    assert cost.minutes == pytest.approx(55 / 60)
    assert (nothing.objects, nothing.delete_requests, nothing.list_requests) == (0, 0, 0)
    assert (nothing.money, nothing.minutes) == (0, 0)


def test_rate_comes_from_the_last_rounds_or_is_assumed() -> None:
    kinds = (KindReport(kind="a", deleted=900, hidden=100, elapsed_ms=500), KindReport(kind="b", elapsed_ms=9_999))
    ran = RoundReport(round=1, instance="shop", kinds=kinds)
    adopted = ran.model_copy(update={"adoption_ms": 9_500})  # earlier marks take time, too

    assert rate([ran, ran]) == 2_000
    assert rate([adopted]) == 100
    assert rate([]) == rate([RoundReport(round=2, instance="shop")]) == ASSUMED_KEYS_PER_SECOND
