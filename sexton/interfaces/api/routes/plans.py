"""See what would go, then let exactly that go."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.concurrency import run_in_threadpool

from sexton.interfaces.api.caller import Asker, AtDesk, Caller, Reader
from sexton.interfaces.operator_service import OperatorService
from sexton.operators.access.model import Grant
from sexton.operators.controls.port import NotEnabled
from sexton.protocol.plans import Applying, Shown
from sexton.recycle.model import RecycleRequest
from sexton.recycle.planning.sql.plans import PlanStore

routes = APIRouter(prefix="/v1")
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


@routes.post("/instances/{instance}/plans", status_code=201)
def plan(instance: str, at: AtDesk, asker: Asker) -> Shown:
    """Store and return what a round would delete now, with everything that is due in it."""
    asker.needs(Grant.OPERATE)
    made = at.plan(instance, asker.token.name)
    return Shown(
        plan=made.plan,
        state=PlanStore(at.db).state(made.plan.id),
        estimate=made.cost,
        observes=made.observes,
        holds=tuple(h.id for h in made.holds),
        halt=str(made.halt or ""),
    )


@routes.get("/plans/{plan}")
def show(plan: Number, at: AtDesk, _: Reader) -> Shown:
    """Return a stored plan and what became of it."""
    store = PlanStore(at.db)
    found = store.find_plan(plan)
    return Shown(plan=found, state=store.state(plan), estimate=at.cost(found))


@routes.post("/plans/{plan}/apply", status_code=202)
async def apply(plan: Number, request: Request, at: AtDesk, asker: Asker) -> Applying:
    """Start the round that deletes exactly what a plan says; refused where the world changed. Does not wait for it."""
    return await run_in_threadpool(_apply, plan, request, at, asker)


def _apply(plan: int, request: Request, at: OperatorService, asker: Caller) -> Applying:
    with asker.recorded(at, "apply", subject=str(plan)):
        asker.needs(Grant.OPERATE)
        store = PlanStore(at.db)
        of = store.find_plan(plan).instance
        if at.registry.instance(of).mode == "observe":
            raise NotEnabled(f"{of} only observes; run: sexton enable {of}")
        store.check_apply(plan, of, at.settings.policy())  # the round asks this again, and the next line
        at.controls.admit(of)
        wanted = RecycleRequest(instance=of, plan=plan, requested_by=asker.token.name)
        begun = request.app.state.rounds.start(wanted)
    return Applying(plan=plan, instance=of, workflow=begun.workflow, run=begun.run)
