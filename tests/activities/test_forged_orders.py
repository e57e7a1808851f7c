"""A worker compares each field of an order with rows: nobody who reaches Temporal deletes more than they allow.

``tests/support/orders.py`` says which fields these are; each is forged here.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities import RecycleActivities
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.planning.model import Plan
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import OpenedRound, OpenRoundOrder, ReleaseOrder
from tests.activities import test_forged_checks
from tests.integration.recycle.rounds import test_forged_orders
from tests.support.orders import lines_of
from tests.support.planned import limited_policy
from tests.support.rig import DAY, GRACE, Rig, listing

WEEK_MS = 7 * 86_400_000
Change = Callable[[Any], object]
LEASE: Mapping[str, Change] = {
    "lease.instance": lambda _: "bank",
    "lease.job": lambda _: "other",
    "lease.owner": lambda _: "intruder",
    "lease.epoch": lambda epoch: epoch + 1,
}
OPENED: Mapping[str, Change] = {
    "opened.round": lambda number: number + 1,
    "opened.lease.instance": lambda _: "bank",
    "opened.lease.owner": lambda _: "intruder",
}
REFUSED: Mapping[str, Mapping[str, Change]] = {
    "open_round": {"instance": lambda _: "bank", "run": lambda _: "of the bank"},
    "release_lease": OPENED,
    "adopt_claimed": {"round": lambda number: number + 1, **LEASE},
    "recycle_range": {
        "round": lambda number: number + 1,
        **LEASE,
        "plan": lambda _: 1,
        "kind": lambda _: "compacted",
        "cutoff": lambda cutoff: cutoff + WEEK_MS,
        "limit": lambda limit: limit + 1,
        "allowance": lambda allowance: allowance + 1,
    },
    "close_round": OPENED,
}
"""By activity: field → what replaces its value; the activity fails."""
STRICTER: Mapping[str, Mapping[str, Change]] = {
    "adopt_claimed": {
        "upload_grace_seconds": lambda _: 0,
        "cutoffs": lambda cutoffs: dict.fromkeys(cutoffs, 2**52) | {"own": 2**52},
    },
    "recycle_range": {"upload_grace_seconds": lambda _: 0},
}
"""By activity: field → what replaces its value; the worker uses the value of the rows."""
ELSEWHERE = {
    "adopt_claimed.excluded_vaults": test_forged_orders.test_h1_vaults_are_excluded_by_their_rows,
    "recycle_range.excluded_vaults": test_forged_orders.test_h1_vaults_are_excluded_by_their_rows,
    "open_round.plan": test_forged_orders.test_h1_a_plan_is_applied_only_with_an_approval,
    "close_round.plan": test_forged_orders.test_h1_a_round_closes_its_own_plan_only,
    **test_forged_checks.FORGED,
    **test_forged_checks.FORGED_PURGES,
}
"""Fields that tests of their own forge."""
CELLS = [(name, field) for name, fields in REFUSED.items() for field in fields]
STRICTER_CELLS = [(name, field) for name, fields in STRICTER.items() for field in fields]


class Shop:
    """A running round of ``shop``, with a mark that is due and one that is not, and plan 1, which awaits approval."""

    def __init__(self, rig: Rig, root: Path) -> None:
        self.rig, self.root = rig, rig.local(root)
        rig.policy = limited_policy(objects=5, fraction=1.0)
        self.mark()
        assert rig.rounds.plans.plan_for_operator("shop", rig.policy, "anna").id == 1
        rig.rounds.open("bank", "of the bank", None, rig.policy)
        self.activities = RecycleActivities(rig.rounds, rig.recycler, rig.policy)
        self.begin()

    def mark(self, number: str = "") -> None:
        """Make a mark that is due, and one that is not."""
        self.rig.drop(self.root, f"data/old{number}", f"old{number}", later=10_801)
        self.rig.drop(self.root, f"data/new{number}", f"new{number}")

    def begin(self) -> None:
        """Open a round and make its plan."""
        self.opened: OpenedRound = self.run("open_round", OpenRoundOrder(instance="shop", run=uuid.uuid4().hex))
        self.plan: Plan = self.rig.plan()

    def run(self, name: str, order: Any) -> Any:
        """Run an activity as a worker does."""
        return ActivityEnvironment().run(getattr(self.activities, name), order)

    def order(self, name: str) -> Any:
        """Return the order that the round's workflow sends."""
        ledger, opened = Ledger(), self.opened
        ledger.begin(self.plan)
        match name:
            case "open_round":
                return OpenRoundOrder(instance="shop", run=opened.lease.owner)
            case "release_lease":
                return ReleaseOrder(opened=opened, why="paused")
            case "recycle_range":
                return ledger.next_range(opened, self.plan, self.plan.kinds[0], 0)
            case "close_round":
                return ledger.close_order(opened, self.plan.id, self.plan, "SUCCEEDED", "")
            case _:
                lease, grace = opened.lease, opened.policy.upload_grace_seconds
                return AdoptOrder(round=opened.round, lease=lease, upload_grace_seconds=grace, cutoffs=opened.cutoffs)


@pytest.fixture
def shop(rig: Rig, tmp_path: Path) -> Shop:
    return Shop(rig.instance("bank"), tmp_path / "v")


def forged(order: Any, path: str, change: Change) -> Any:
    """Return an order with another value at a path of fields."""
    name, _, rest = path.partition(".")
    value = getattr(order, name)
    return order.model_copy(update={name: forged(value, rest, change) if rest else change(value)})


def test_h1_each_field_that_rows_decide_is_forged() -> None:
    cells = {f"{name}.{field}" for name, field in CELLS + STRICTER_CELLS} | ELSEWHERE.keys()

    assert cells == lines_of("rows")
    assert all(test.__name__.startswith("test_h1_") for test in ELSEWHERE.values())


def test_h1_a_forged_field_is_refused(shop: Shop) -> None:
    for name, field in CELLS:
        before = shop.rig.count("lease", state="BUSY")

        with pytest.raises(ApplicationError) as refused:
            shop.run(name, forged(shop.order(name), field, REFUSED[name][field]))

        assert refused.value.type in ("OrderRefused", "LeaseLost", "PlanRefused")
        assert listing(shop.root) == {"data/old": 10, "data/new": 10}
        assert (shop.rig.count("mark", state="MARKED"), shop.rig.count("lease", state="BUSY")) == (2, before)
        assert shop.rig.count("plan", id=1, approved_at=None, state="PLANNED") == 1


def fields_of(order: Any, path: str = "") -> Iterator[str]:
    """Yield the path of each number and each text of an order."""
    for name in type(order).model_fields:
        match getattr(order, name):
            case BaseModel() as part:
                yield from fields_of(part, f"{path}{name}.")
            case bool():
                continue
            case int() | str():
                yield f"{path}{name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["open_round", "adopt_claimed", "recycle_range", "release_lease", "close_round"])
def test_h1_no_forged_order_blocks_a_later_round(shop: Shop, name: str) -> None:
    last = "data/new"
    for number, path in enumerate(fields_of(shop.order(name))):
        order = forged(shop.order(name), path, lambda value: "x" if isinstance(value, str) else 2**62)
        with suppress(ApplicationError, OverflowError):
            shop.run(name, order)
        with suppress(ApplicationError):
            shop.run("close_round", shop.order("close_round"))
        shop.rig.later(3_600)  # a lease that was not released has ended

        shop.rig.round()

        assert (path, listing(shop.root)) == (path, {last: 10})
        shop.rig.later(DAY)  # and what was deleted no longer counts for the limit
        shop.mark(f"{number}")
        shop.begin()
        last = f"data/new{number}"


def test_h1_a_genuine_order_is_not_refused(shop: Shop) -> None:
    for name in ("adopt_claimed", "recycle_range", "close_round"):
        shop.run(name, shop.order(name))

    assert listing(shop.root) == {"data/new": 10}
    assert shop.rig.count("plan", id=1, approved_at=None, state="PLANNED") == 1


def test_h1_a_worker_takes_the_value_of_rows(shop: Shop) -> None:
    rounds, policy = shop.rig.rounds, shop.rig.policy
    for name, field in STRICTER_CELLS:
        checked: Callable[..., Any] = rounds.checked_range if name == "recycle_range" else rounds.checked_adoption

        used = checked(forged(shop.order(name), field, STRICTER[name][field]), policy)

        if field == "cutoffs":
            assert used.cutoffs.keys() == shop.opened.cutoffs.keys()
            assert all(used.cutoffs[kind] < 2**52 for kind in used.cutoffs)
        else:
            assert used.upload_grace_seconds == GRACE
