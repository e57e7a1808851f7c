"""Plan a round, then delete exactly what the plan lists."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from sexton.interfaces.api.caller import Caller, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pages import Before, Limit
from sexton.interfaces.operator_service import OperatorService
from sexton.operations.registry import Deed
from sexton.operators.access.model import UNKNOWN_INSTANCE, Grant
from sexton.operators.controls.port import NotEnabled
from sexton.protocol.operating import PlanPage, Rejection
from sexton.protocol.plans import PlanDetails, StartedRound
from sexton.recycle.errors import PlanRefused
from sexton.recycle.planning.model import Plan, PlanRow
from sexton.recycle.rounds.model import RecycleRequest

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


@routes.post("/instances/{instance}/plans", status_code=201)
def plan(instance: str, service: Service, caller: CurrentCaller) -> PlanDetails:
    """Store and return the plan of what a round would delete now: everything that is due."""
    with caller.recorded(Deed("plan", instance, Grant.OPERATE)):
        planned = service.plan(instance, caller.name)
    return PlanDetails(
        plan=planned.plan,
        state=service.stores.plans.approvals.state(planned.plan.id),
        estimate=planned.cost,
        observes=planned.observes,
        holds=tuple(hold.id for hold in planned.holds),
        halt=str(planned.halt or ""),
    )


@routes.get("/instances/{instance}/plans")
def plans(instance: str, service: Service, caller: CurrentCaller, after: Before = None, limit: Limit = 20) -> PlanPage:
    """Return plans, the newest first; on the first page also each older one that awaits approval."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    store = service.stores.plans.approvals
    rows = store.plans(instance, limit, before=after)
    has_more = len(rows) >= limit and bool(store.plans(instance, 1, before=rows[limit - 1].id))
    return PlanPage(plans=tuple(rows), next=str(rows[limit - 1].id) if has_more else "")


@routes.get("/plans/{plan}")
def show(plan: Number, service: Service, caller: CurrentCaller) -> PlanDetails:
    """Return a stored plan and its state."""
    store = service.stores.plans
    stored = _readable(plan, service, caller)
    return PlanDetails(plan=stored, state=store.approvals.state(plan), estimate=service.cost(stored))


@routes.post("/plans/{plan}/apply", status_code=202)
def apply(plan: Number, request: Request, service: Service, caller: CurrentCaller) -> StartedRound:
    """Start the round that deletes exactly what a plan lists. Refused if the situation changed. Do not wait."""
    store = service.stores.plans
    instance = _instance_of(plan, service)
    with caller.recorded(Deed("apply", instance, Grant.OPERATE, str(plan), is_named=False)):
        instance = store.find_plan(plan).instance
        if service.stores.registry.instance(instance).mode == "observe":
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        store.approvals.check_apply(
            plan, instance, service.policy(instance)
        )  # the round repeats this check and the next one
        service.stores.controls.admit(instance)
        order = RecycleRequest(instance=instance, plan=plan, requested_by=caller.name)
        with store.approvals.approving(plan, instance, caller.name):
            run = request.app.state.starter.start_round(order)
    return StartedRound(plan=plan, instance=instance, workflow=run.workflow, run=run.run)


@routes.post("/plans/{plan}/reject")
def reject(plan: Number, body: Rejection, service: Service, caller: CurrentCaller) -> PlanRow:
    """Reject a plan that awaits approval: its kinds need an approval for 7 days, or until a later plan is applied."""
    instance = _instance_of(plan, service)
    with caller.recorded(Deed("plan reject", instance, Grant.OPERATE, str(plan), body.reason, is_named=False)):
        return service.stores.plans.approvals.reject(plan, body.reason, caller.name)


def _instance_of(plan: int, service: OperatorService) -> str:
    """Return the instance of a plan; empty where there is no such plan, so that the token must cover all."""
    try:
        return service.stores.plans.find_plan(plan).instance
    except PlanRefused:
        return UNKNOWN_INSTANCE


def _readable(plan: int, service: OperatorService, caller: Caller) -> Plan:
    """Return a stored plan whose instance the token covers; a token of one instance learns nothing about others."""
    try:
        stored = service.stores.plans.find_plan(plan)
    except PlanRefused:
        caller.require(Grant.READ, UNKNOWN_INSTANCE)
        raise
    caller.require(Grant.READ, stored.instance)
    return stored
