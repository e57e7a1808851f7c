"""A worker compares each order with the rows: whoever reaches Temporal deletes nothing that they do not allow (H1)."""

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import update

from sexton.contract import NewMark
from sexton.marks.model import LeaseLost
from sexton.recycle.errors import OrderRefused, PlanRefused
from sexton.recycle.model import FAILED
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import OpenedRound
from tests.support.rig import GRACE, Rig, put

WEEK_MS = 7 * 86_400_000


@pytest.fixture
def rig(database_url: str, tmp_path: Path) -> Rig:
    """An instance with a mark that is due, and one that is not."""
    rig = Rig(database_url).instance()
    root = rig.local(tmp_path / "v")
    for name in ("old", "new"):
        put(root, f"data/{name}")
    rig.mark("dropped", NewMark(id="old", vault="disk", keys=("data/old",)))
    rig.later(10_801)
    rig.mark("dropped", NewMark(id="new", vault="disk", keys=("data/new",)))
    return rig


def begun(rig: Rig) -> tuple[OpenedRound, RangeOrder]:
    """Begin a round as its workflow does; return it, and the order of its first range."""
    opened, ledger = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy), Ledger()
    rig.recycler.announce(opened, lambda: None)
    plan = rig.plan()
    ledger.begin(plan)
    return opened, ledger.next_range(opened, plan, plan.kinds[0], 0)


FORGED: dict[str, Callable[[RangeOrder], dict[str, object]]] = {
    "a cutoff within the retention": lambda o: {"cutoff": o.cutoff + WEEK_MS},
    "more marks than planned": lambda o: {"limit": o.limit + 1},
    "no plan": lambda _: {"plan": 0},
    "a plan that does not exist": lambda _: {"plan": 999_999},
    "a kind that is not planned": lambda _: {"kind": "compacted"},
    "another round": lambda o: {"round": o.round + 1},
    "another run": lambda o: {"lease": o.lease.model_copy(update={"owner": "intruder"})},
    "another instance": lambda o: {"lease": o.lease.model_copy(update={"instance": "bank"})},
}


def test_h1_an_order_that_the_rows_do_not_allow_is_refused(rig: Rig) -> None:
    _, order = begun(rig)
    assert rig.rounds.checked_range(order, rig.policy) == order

    for forged in FORGED:
        with pytest.raises(OrderRefused):
            rig.rounds.checked_range(order.model_copy(update=FORGED[forged](order)), rig.policy)


@pytest.mark.parametrize("epoch", [0, 2**62])
@pytest.mark.parametrize("step", ["recycle", "adopt"])
def test_h1_an_order_of_no_epoch_leaves_no_batch_behind(rig: Rig, step: str, epoch: int) -> None:
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

    assert rig.count("batch") == 0
    assert (rig.round().deleted, rig.count("mark")) == (1, 1)


def test_h1_a_plan_without_approval_allows_no_range(rig: Rig) -> None:
    _, order = begun(rig)
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "intruder")

    with pytest.raises(OrderRefused, match="is not approved"):
        rig.rounds.checked_range(order.model_copy(update={"plan": plan.id}), rig.policy)


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


def test_h1_a_kind_without_a_retention_allows_no_range(rig: Rig) -> None:
    _, order = begun(rig)
    none = {kind: s for kind, s in rig.policy.retention_seconds.items() if kind != order.kind}

    with pytest.raises(OrderRefused, match="has no retention any longer"):
        rig.rounds.checked_range(order, rig.policy.model_copy(update={"retention_seconds": none}))


def test_h1_a_retention_not_agreed_to_allows_no_range(rig: Rig) -> None:
    rig.rounds.plans.agree_first("shop", rig.policy)
    _, order = begun(rig)
    agreed = {"retentions": rig.policy.retention_seconds | {"dropped": 99_999}}
    with rig.db.write() as c:
        c.execute(update(rig.db.t.instance).values(agreed))

    with pytest.raises(OrderRefused, match="younger than its retention allows"):
        rig.rounds.checked_range(order, rig.policy)


def test_h1_a_round_by_a_shorter_retention_is_not_refused(rig: Rig) -> None:
    rig.rounds.plans.agree_first("shop", rig.policy)
    rig.policy = rig.policy.model_copy(update={"retention_seconds": rig.policy.retention_seconds | {"dropped": 3_600}})

    _, order = begun(rig)

    assert rig.rounds.checked_range(order, rig.policy) == order


def test_h1_an_order_without_its_limit_is_refused(rig: Rig) -> None:
    limited = rig.policy.model_copy(update={"unlimited": (), "max_delete_objects": 5, "max_delete_fraction": 1.0})
    rig.policy = limited
    _, order = begun(rig)
    assert order.allowance == 5

    with pytest.raises(OrderRefused, match="another limit"):
        rig.rounds.checked_range(order.model_copy(update={"allowance": None}), limited)


def test_h1_an_order_of_a_round_that_ended_is_refused(rig: Rig) -> None:
    opened, order = begun(rig)
    rig.rounds.close(Ledger().close_order(opened, order.plan, None, "SUCCEEDED", ""))

    with pytest.raises(LeaseLost):
        rig.rounds.checked_range(order, rig.policy)


def test_h1_vaults_are_excluded_by_their_rows(rig: Rig) -> None:
    opened = rig.rounds.open("shop", uuid.uuid4().hex, None, rig.policy)  # its marker was never written
    plan, ledger = rig.plan(), Ledger()
    ledger.begin(plan)
    order = ledger.next_range(opened, plan, plan.kinds[0], 0)

    assert rig.rounds.checked_range(order, rig.policy).excluded_vaults == {"disk": "NOT_ANNOUNCED"}


def test_h1_graces_and_cutoffs_of_an_adoption_come_from_settings(rig: Rig) -> None:
    opened, _ = begun(rig)
    far = dict.fromkeys(opened.cutoffs, 2**52)
    order = AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=0, cutoffs=far | {"own": 2**52})

    checked = rig.rounds.checked_adoption(order, rig.policy)

    assert checked.upload_grace_seconds == GRACE
    assert checked.cutoffs.keys() == opened.cutoffs.keys()
    assert all(checked.cutoffs[kind] < 2**52 for kind in checked.cutoffs)


def test_h1_a_plan_is_applied_only_with_an_approval(rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "intruder")

    with pytest.raises(PlanRefused, match=f"no operator has approved plan {plan.id}; to apply it: sexton apply"):
        rig.rounds.open("shop", "intruder", plan.id, rig.policy)
    assert rig.count("round") == 0

    rig.approve(plan.id)
    assert rig.round(plan=plan.id, run="anna").deleted == 1


@pytest.mark.parametrize("end", [LeaseLost("any error of the start"), KeyboardInterrupt(), RuntimeError("a fault")])
def test_h1_an_approval_ends_with_a_round_that_did_not_begin(rig: Rig, end: BaseException) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna")

    with pytest.raises(type(end)), rig.rounds.plans.approvals.approving(plan.id, "shop", "anna"):
        raise end

    with pytest.raises(PlanRefused, match="no operator has approved"):
        rig.rounds.open("shop", "intruder", plan.id, rig.policy)


def test_a_second_approval_at_once_is_refused(rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna")
    approvals = rig.rounds.plans.approvals
    first = approvals.approving(plan.id, "shop", "anna")
    first.__enter__()
    with pytest.raises(PlanRefused, match="approved by anna just now"), approvals.approving(plan.id, "shop", "bert"):
        raise AssertionError("both start its round")
    assert not first.__exit__(LeaseLost, LeaseLost("Temporal did not answer"), None)

    assert approvals.plan(plan.id).approved_by == ""


def test_a_second_approval_that_fails_leaves_the_first(rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna")
    approvals = rig.rounds.plans.approvals
    rig.approve(plan.id)  # its round was started, and waits for a worker
    rig.later(61)
    with pytest.raises(LeaseLost), approvals.approving(plan.id, "shop", "bert"):
        raise LeaseLost("a round of the instance runs already")

    assert approvals.plan(plan.id).approved_by == "anna"
    assert rig.round(plan=plan.id, run="anna").deleted == 1


def test_an_approval_ends_with_a_round_that_was_abandoned(rig: Rig) -> None:
    rig.instance("bank")
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna")
    rig.approve(plan.id)
    rig.rounds.abandon("other", "halted", plan.id, "bank")
    assert rig.rounds.plans.approvals.plan(plan.id).approved_by == "anna"
    rig.rounds.abandon("anna", "halted", plan.id, "shop")

    with pytest.raises(PlanRefused, match="no operator has approved"):
        rig.rounds.open("shop", "intruder", plan.id, rig.policy)


def test_an_approval_ends_with_a_round_that_was_refused(rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna")
    rig.approve(plan.id)
    changed = rig.policy.model_copy(update={"version": "other"})
    with pytest.raises(PlanRefused, match="settings changed"):
        rig.rounds.open("shop", "anna", plan.id, changed)

    with pytest.raises(PlanRefused, match="no operator has approved"):
        rig.rounds.open("shop", "intruder", plan.id, rig.policy)


def test_h1_an_approval_ends_with_a_round_that_claimed_nothing(rig: Rig) -> None:
    plan = rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna")
    rig.approve(plan.id)
    opened = rig.rounds.open("shop", "anna", plan.id, rig.policy)
    rig.rounds.close(Ledger().close_order(opened, plan.id, None, "STOPPED", "a stop"))

    with pytest.raises(PlanRefused, match="no operator has approved"):
        rig.rounds.open("shop", "intruder", plan.id, rig.policy)


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
