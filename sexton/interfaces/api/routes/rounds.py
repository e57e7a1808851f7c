"""Rounds: the newest ones, one of them, the start of one, and signals to the running one."""

from typing import Annotated

from fastapi import APIRouter, Path, Request

from sexton.insight.progress import round_progress
from sexton.interfaces.api.caller import CurrentCaller, Deed, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pages import Before, Limit, page
from sexton.operators.access.model import Grant
from sexton.protocol.operating import RoundDetails, RoundPage, Signal, Signalled
from sexton.protocol.plans import StartedRound
from sexton.recycle.errors import UnknownRound
from sexton.recycle.rounds.model import RecycleRequest

routes = APIRouter(prefix="/v1/instances/{instance}/rounds", route_class=GuardedRoute)
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


@routes.get("")
def rounds(
    instance: str, service: Service, caller: CurrentCaller, after: Before = None, limit: Limit = 20
) -> RoundPage:
    """Return rounds with their reports, the newest first."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    shown, following = page(service.stores.reports.rounds(instance, limit + 1, before=after), limit)
    return RoundPage(rounds=shown, next=following)


@routes.get("/{round}")
def show(instance: str, round: Number, service: Service, caller: CurrentCaller) -> RoundDetails:
    """Return the report of one round, or how far it is."""
    caller.require(Grant.READ, instance)
    row = service.stores.reports.round(round)
    if row.instance != instance:
        raise UnknownRound(f"instance {instance} has no round {round}")
    return RoundDetails(round=row, progress=round_progress(service.db, round) if row.report is None else None)


@routes.post("", status_code=202)
def start(instance: str, request: Request, service: Service, caller: CurrentCaller) -> StartedRound:
    """Start one round now, with a plan of its own; do not wait."""
    with caller.recorded(Deed("round run", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        order = RecycleRequest(instance=instance, requested_by=caller.name)
        run = request.app.state.starter.start_round(order)
    return StartedRound(instance=instance, workflow=run.workflow, run=run.run)


@routes.post("/running/{signal}", status_code=202)
def signal(
    instance: str,
    signal: Signal,
    request: Request,
    service: Service,
    caller: CurrentCaller,
) -> Signalled:
    """Signal the running round.

    ``cancel`` ends it after its page, ``pause`` pauses it then, ``resume`` continues it, and ``retry`` ends a backoff.
    """
    with caller.recorded(Deed(f"round {signal}", instance, Grant.OPERATE), keeps=signal in ("cancel", "pause")):
        service.stores.registry.instance(instance)
        workers = request.app.state.starter.signal_round(instance, signal)
    return Signalled(instance=instance, signal=signal, workers=workers)
