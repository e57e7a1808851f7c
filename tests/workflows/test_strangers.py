"""A stranger who reaches Temporal starts and signals workflows: nothing is deleted that the rows do not allow."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

from sexton.contract import NewMark
from sexton.kernel.errors import BadInput
from sexton.marks.model import Lease
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.planning.model import Plan
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import Carried, OpenedRound, RecycleRequest
from sexton.recycle.rounds.recycler import Recycler
from sexton.recycle.rounds.sql.store import RoundStore
from tests.support.door import Door
from tests.support.orders import HANDLERS
from tests.support.rig import Rig, listing, put
from tests.workflows.conftest import Served, fill
from workflows import ids

STATES = ("WAITING", "ADOPTING", "PLANNING", "RECYCLING", "PAUSED", "BACKING_OFF", "CLOSING", "ENDED")
STEPS = {
    "ADOPTING": (Recycler, "adopt"),
    "PLANNING": (RoundStore, "plan"),
    "RECYCLING": (ClaimStore, "claim"),
    "CLOSING": (RoundStore, "close"),
}
"""A step of each phase that is over soon, which waits behind a door until all signals have arrived."""
SIGNALS = [name for name, line in HANDLERS[ids.RECYCLE].items() if line.startswith("signal")]
KEPT = {"kept/held.dat", "kept/young.dat"}


def fill_shop(rig: Rig, root: Path, shop: str) -> None:
    """Make 200 marks that are due, one that is held and one that is not due."""
    rig.mark("dropped", NewMark(id="held", vault="disk", keys=("kept/held.dat",)), instance=shop)
    fill(rig, root, shop, 200)
    rig.mark("dropped", NewMark(id="young", vault="disk", keys=("kept/young.dat",)), instance=shop)
    for key in KEPT:
        put(root, key)
    held = Hold(instance=shop, scope="mark", mark_kind="dropped", mark_id="held", reason="the test")
    rig.holds.place(held, 3_600)


def behind(door: Door, step: Callable[..., Any]) -> Callable[..., Any]:
    def come(*given: Any, **named: Any) -> Any:
        door.come()
        return step(*given, **named)

    return come


async def reach(
    served: Served, shop: str, state: str, door: Door, monkeypatch: pytest.MonkeyPatch
) -> WorkflowHandle[Any, Any]:
    """Start a round and wait until it is in a state, in which the door holds it."""
    if state == "WAITING":
        served.rig.leases.acquire(shop, "recycle", "another")
    if state == "BACKING_OFF":

        def broken(self: ClaimStore, *given: Any) -> Any:
            raise BadInput("broken for the test")

        monkeypatch.setattr(ClaimStore, "claim", broken)
    if state in STEPS:
        store, name = STEPS[state]
        monkeypatch.setattr(store, name, behind(door, getattr(store, name)))
    handle = await served.start(shop)
    if state == "PAUSED":
        await handle.signal("pause")
    if state == "ENDED":
        await handle.result()
    else:
        await served.until(handle, lambda progress: progress.doing == state)
    return handle


@pytest.mark.parametrize("state", STATES)
async def test_h1_no_signal_deletes_what_rows_keep(
    served: Served, shop: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small_ranges: None, state: str
) -> None:
    root = served.rig.instance(shop).local(tmp_path / "v", instance=shop)
    fill_shop(served.rig, root, shop)

    door = Door()
    handle = await reach(served, shop, state, door, monkeypatch)
    for signal in ("pause", "retry", "resume", *SIGNALS, "cancel"):
        with suppress(RPCError):  # Temporal refuses signals to a workflow that has ended
            await handle.signal(signal)
            await handle.query("progress")  # is answered after the workflow has seen the signal
    door.open()
    await handle.result()

    assert listing(root).keys() >= KEPT
    assert {served.rig.row("dropped", name, shop).state for name in ("held", "young")} == {"MARKED"}


async def test_h1_a_stranger_applies_no_plan(served: Served, shop: str, tmp_path: Path) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 10)
    plan = rig.rounds.plans.plan_for_operator(shop, rig.policy, "anna")

    with pytest.raises(WorkflowFailureError):
        await start(served, RecycleRequest(instance=shop, plan=plan.id))

    assert len(listing(root)) == 10
    assert rig.count("plan", id=plan.id, state="PLANNED", approved_at=None) == 1


@pytest.mark.parametrize("halt", ["observe", "stop"])
async def test_h1_a_forged_round_deletes_nothing(served: Served, shop: str, tmp_path: Path, halt: str) -> None:
    rig, root = served.rig, served.filled(shop, tmp_path, 10)
    plan = rig.plan(shop)
    rig.rounds.open(shop, "cut off", None, rig.policy)
    if halt == "observe":
        rig.registry.observe(shop)
    else:
        rig.controls.put(ControlKind.STOP, shop, "the test")

    with suppress(WorkflowFailureError):
        await start(served, RecycleRequest(instance=shop, carried=carried(rig, shop, plan)))

    assert len(listing(root)) == 10
    assert rig.count("mark", instance=shop, state="MARKED") == 10


def carried(rig: Rig, shop: str, plan: Plan) -> Carried:
    """Return the progress of a round that says that it may delete."""
    lease = Lease(instance=shop, job="recycle", owner="cut off", epoch=1)
    opened = OpenedRound(round=1, lease=lease, may_delete=True, policy=rig.policy, vaults=("disk",))
    ledger = Ledger()
    ledger.begin(plan)
    return ledger.carried("cut off", opened, plan.id)


async def start(served: Served, request: RecycleRequest) -> RoundReport:
    """Start a round under an id of one's own and return its report."""
    handle = await served.begin(ids.RECYCLE, request, f"stranger/{request.instance}", RoundReport)
    return await handle.result()
