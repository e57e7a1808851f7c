"""A worker compares each order with the rows: whoever reaches Temporal deletes nothing that they do not allow (H1).

A forged report of a round changes what people read about it, and nothing else.
"""

import uuid
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from sexton.contract import NewMark
from sexton.insight.status import overview
from sexton.marks.kept import KeepReason, Kept
from sexton.marks.model import LeaseLost
from sexton.operators.controls.model import NotEnabled
from sexton.recycle.model import FAILED, OrderRefused, PlanRefused
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import CloseOrder, KindProgress, OpenedRound
from tests.support.rig import GRACE, Rig, stores_of
from tests.support.scrape import scrape


@pytest.fixture
def rig(rig: Rig, root: Path) -> Rig:
    """An instance with a mark that is due, and one that is not."""
    rig.drop(root, "data/old", "old", later=10_801)
    rig.drop(root, "data/new", "new")
    return rig


def by_operator(rig: Rig) -> int:
    """Make a plan that nobody has approved; return its number."""
    return rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna").id


def begun(rig: Rig) -> tuple[OpenedRound, RangeOrder]:
    """Begin a round as its workflow does; return it, and the order of its first range."""
    opened, ledger = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy), Ledger()
    rig.recycler.announce(opened, lambda: None)
    plan = rig.plan()
    ledger.begin(plan)
    return opened, ledger.next_range(opened, plan, plan.kinds[0], 0)


def test_h1_an_order_that_the_rows_do_not_allow_is_refused(rig: Rig) -> None:
    rig.rounds.plans.agree_first("shop", rig.policy)
    _, order = begun(rig)
    retentions = rig.policy.retention_seconds
    without = rig.policy.model_copy(
        update={"retention_seconds": {k: retentions[k] for k in retentions if k != order.kind}}
    )
    longer = {"retentions": retentions | {"dropped": 99_999}}
    assert rig.rounds.checked_range(order, rig.policy) == order

    for plan, why in ((0, None), (999_999, None), (by_operator(rig), "is not approved")):
        with pytest.raises(OrderRefused, match=why):
            rig.rounds.checked_range(order.model_copy(update={"plan": plan}), rig.policy)
    with pytest.raises(OrderRefused, match="has no retention any longer"):
        rig.rounds.checked_range(order, without)
    rig.update("instance", **longer)
    with pytest.raises(OrderRefused, match="younger than its retention allows"):
        rig.rounds.checked_range(order, rig.policy)


def test_h1_an_order_of_no_epoch_leaves_no_batch_behind(rig: Rig) -> None:
    for step, epoch in product(("recycle", "adopt"), (0, 2**62)):
        opened, order = begun(rig)
        lease, cutoffs = opened.lease.model_copy(update={"epoch": epoch}), opened.cutoffs
        orders = {
            "recycle": order.model_copy(update={"number": 999, "lease": lease}),
            "adopt": AdoptOrder(round=opened.round, lease=lease, upload_grace_seconds=GRACE, cutoffs=cutoffs),
        }
        with pytest.raises(LeaseLost):
            getattr(rig.recycler, step)(orders[step], 1, lambda: None)
        ledger = Ledger()
        ledger.leases = 1
        rig.rounds.close(ledger.close_order(opened, None, None, FAILED, "for the test"))

        assert rig.count("batch") == 0, step
    assert (rig.round().deleted, rig.count("mark")) == (1, 1)


def test_h1_an_approved_plan_allows_no_later_cutoff(rig: Rig) -> None:
    plan, ledger = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna"), Ledger()
    rig.approve(plan.id)
    opened = rig.rounds.open("shop", uuid.uuid4().hex, plan.id, rig.policy)
    ledger.begin(plan)
    order = ledger.next_range(opened, plan, plan.kinds[0], 0)
    assert rig.rounds.checked_range(order, rig.policy).cutoff == order.cutoff

    with pytest.raises(OrderRefused, match="goes beyond plan"):
        rig.rounds.checked_range(order.model_copy(update={"cutoff": order.cutoff + 1}), rig.policy)


def test_h1_a_plan_of_a_shorter_retention_claims_no_mark(rig: Rig) -> None:
    _, order = begun(rig)
    longer = rig.policy.model_copy(update={"retention_seconds": rig.policy.retention_seconds | {order.kind: 99_999}})

    checked = rig.rounds.checked_range(order, longer)

    assert order.cutoff - 99_999_000 < checked.cutoff < order.cutoff - 80_000_000
    assert rig.recycler.recycle(checked, 1, lambda: None).claimed == 0
    assert rig.count("mark", state="MARKED") == 2


def test_h1_a_round_by_a_shorter_retention_is_not_refused(rig: Rig) -> None:
    rig.rounds.plans.agree_first("shop", rig.policy)
    rig.policy = rig.policy.model_copy(update={"retention_seconds": rig.policy.retention_seconds | {"dropped": 3_600}})

    _, order = begun(rig)

    assert rig.rounds.checked_range(order, rig.policy) == order


def test_h1_order_without_its_limit_or_round_is_refused(rig: Rig) -> None:
    limited = rig.policy.model_copy(update={"unlimited": (), "max_delete_objects": 5, "max_delete_fraction": 1.0})
    rig.policy = limited
    opened, order = begun(rig)
    assert order.allowance == 5

    with pytest.raises(OrderRefused, match="another limit"):
        rig.rounds.checked_range(order.model_copy(update={"allowance": None}), limited)
    rig.rounds.close(Ledger().close_order(opened, order.plan, None, "SUCCEEDED", ""))
    with pytest.raises(LeaseLost):
        rig.rounds.checked_range(order, limited)


def test_h1_vaults_are_excluded_by_their_rows(rig: Rig) -> None:
    opened = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy)  # its marker was never written
    plan, ledger = rig.plan(), Ledger()
    ledger.begin(plan)
    order = ledger.next_range(opened, plan, plan.kinds[0], 0)

    assert rig.rounds.checked_range(order, rig.policy).excluded_vaults == {"disk": "NOT_ANNOUNCED"}


def test_h1_a_plan_is_applied_only_with_an_approval(rig: Rig) -> None:
    plan = by_operator(rig)

    with pytest.raises(PlanRefused, match=f"no operator has approved plan {plan}; to apply it: sexton apply"):
        rig.rounds.open("shop", "intruder", plan, rig.policy)
    assert rig.count("round") == 0

    rig.approve(plan)
    rig.registry.observe("shop")
    with pytest.raises(NotEnabled, match="sexton enable shop"):
        rig.rounds.open("shop", "intruder", plan, rig.policy)
    rig.registry.enable("shop")
    assert rig.round(plan=plan, run="anna").deleted == 1


def assert_unapproved(rig: Rig, plan: int) -> None:
    with pytest.raises(PlanRefused, match="no operator has approved"):
        rig.rounds.open("shop", "intruder", plan, rig.policy)


def test_h1_an_approval_ends_with_a_round_that_did_not_begin(rig: Rig) -> None:
    plan = by_operator(rig)
    for end in (LeaseLost("any error of the start"), KeyboardInterrupt(), RuntimeError("a fault")):
        with pytest.raises(type(end)), rig.rounds.plans.approvals.approving(plan, "shop", "anna"):
            raise end

        assert_unapproved(rig, plan)


def test_h1_an_approval_ends_with_its_round(rig: Rig) -> None:
    rig.instance("bank")
    plan = by_operator(rig)
    rig.approve(plan)
    rig.rounds.abandon("other", "halted", plan, "bank")
    assert rig.rounds.plans.approvals.plan(plan).approved_by == "anna"
    rig.rounds.abandon("anna", "halted", plan, "shop")
    assert_unapproved(rig, plan)

    rig.approve(plan)
    with pytest.raises(PlanRefused, match="settings changed"):
        rig.rounds.open("shop", "anna", plan, rig.policy.model_copy(update={"version": "other"}))
    assert_unapproved(rig, plan)

    rig.approve(plan)
    opened = rig.rounds.open("shop", "anna", plan, rig.policy)
    rig.rounds.close(Ledger().close_order(opened, plan, None, "STOPPED", "a stop"))
    assert_unapproved(rig, plan)  # the round has claimed nothing


def test_a_second_approval_at_once_is_refused(rig: Rig) -> None:
    plan, approvals = by_operator(rig), rig.rounds.plans.approvals
    first = approvals.approving(plan, "shop", "anna")
    first.__enter__()
    with pytest.raises(PlanRefused, match="approved by anna just now"), approvals.approving(plan, "shop", "bert"):
        raise AssertionError("both start its round")
    assert not first.__exit__(LeaseLost, LeaseLost("Temporal did not answer"), None)

    assert approvals.plan(plan).approved_by == ""


def test_a_second_approval_that_fails_leaves_the_first(rig: Rig) -> None:
    plan, approvals = by_operator(rig), rig.rounds.plans.approvals
    rig.approve(plan)  # its round was started, and waits for a worker
    rig.later(61)
    with pytest.raises(LeaseLost), approvals.approving(plan, "shop", "bert"):
        raise LeaseLost("a round of the instance runs already")

    assert approvals.plan(plan).approved_by == "anna"
    assert rig.round(plan=plan, run="anna").deleted == 1


@pytest.mark.parametrize("instance", ["shop", "bank"])
def test_h1_a_round_closes_its_own_plan_only(rig: Rig, instance: str) -> None:
    rig.instance("bank")
    rig.mark("dropped", NewMark(id="due", vault="disk", keys=("data/due.dat",), bytes=1), instance="bank")
    rig.later(1)
    shorter = rig.policy.model_copy(update={"retention_seconds": rig.policy.retention_seconds | {"dropped": 1}})
    plan = rig.rounds.plans.plan_for_operator(instance, shorter, "anna")
    rig.approve(plan.id, instance)
    opened, order = begun(rig)
    agreed = [rig.instance_row(name).retentions for name in ("shop", "bank")]

    report = rig.rounds.close(Ledger().close_order(opened, plan.id, None, "SUCCEEDED", ""))

    assert report.plan == order.plan
    assert rig.count("plan", id=plan.id, state="PLANNED", approved_by="anna") == 1
    assert [rig.instance_row(name).retentions for name in ("shop", "bank")] == agreed


HUGE = 10**400
MANY = 2_000


def end_round(rig: Rig, forge: Callable[[CloseOrder], CloseOrder]) -> None:
    """Begin a round, and end it with a forged report."""
    opened, ledger = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy), Ledger()
    ledger.leases = 1
    rig.rounds.close(forge(ledger.close_order(opened, None, None, "SUCCEEDED", "")))


def test_h1_no_forged_number_fails_a_scrape_or_a_status(rig: Rig) -> None:
    rig.instance("other")
    for number in (-HUGE, HUGE):
        kind = KindProgress(kind="dropped", scanned=number, elapsed_ms=number)
        numbers = dict.fromkeys(("scanned", "due", "protected_bytes", "adoption_ms", "leases"), number)
        forged = {**numbers, "kept": {Kept(KeepReason.LIVE): number}, "kinds": (kind,)}

        end_round(rig, lambda order, forged=forged: order.model_copy(update=forged))  # type: ignore[misc]

        assert scrape(rig)("sexton_instance_enabled", instance_id="other") is not None
        status = overview(rig.db, stores_of(rig.db).insight, rig.policy, 1)
        assert [i.instance for i in status.instances] == ["other", "shop"]


def test_h1_forged_names_leave_no_counters_behind(rig: Rig) -> None:
    end_round(rig, lambda order: order)
    before = rig.count("counter")

    def forge(order: CloseOrder) -> CloseOrder:
        names = [f"{uuid.uuid4().hex}" for _ in range(MANY)]
        opened = order.opened.model_copy(update={"vaults": ("disk", *names)})
        faults = {"disk": names[0], **dict.fromkeys(names, "x")}
        return order.model_copy(
            update={"opened": opened, "faults": faults, "kinds": tuple(KindProgress(kind=n) for n in names)}
        )

    end_round(rig, forge)

    assert rig.count("counter") <= before + 1
    assert len(scrape(rig).text) < 100_000


def test_h1_forged_texts_are_stored_in_part(rig: Rig) -> None:
    text = "x" * 1_000_000
    kind = KindProgress(kind="dropped", error=text, note=text)
    kept = {Kept(KeepReason.VAULT, f"{n}{'x' * 9_000}", text): 1 for n in range(9)}
    texts = {"outcome": text, "error": text, "kept": kept, "kinds": (kind,), "fault_details": {"disk": text}}

    end_round(rig, lambda order: order.model_copy(update=texts))

    [report] = rig.rounds.reports.find_round("shop")
    assert len(report.model_dump_json()) < 200_000
    assert len(report.kept) == 9
