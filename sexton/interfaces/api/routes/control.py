"""Status, what blocks deletions, explanations, and the stop switch."""

from typing import Annotated

from fastapi import APIRouter, Query

from sexton.insight.views import Overview
from sexton.interfaces.api.caller import CoveredInstance, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import reserved
from sexton.interfaces.blockers.listing import list_blockers
from sexton.operations.registry import Deed
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.controls.model import ALL, ControlKind
from sexton.protocol.status import BlockerRows, Stop, StopResult, StoriesBody

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Key = Annotated[str, Query(min_length=1, max_length=2_048)]
"""A key of 1,024 bytes, and its vault or URL."""


@routes.get("/status")
def status(service: Service, caller: CurrentCaller, instance: CoveredInstance) -> Overview:
    """Return the state of every instance that the token covers: what runs, waits, is due, blocked and quarantined."""
    caller.require(Grant.READ, instance)
    return service.status(_named(instance))


@routes.post("/instances/{instance}/stop")
@reserved
def stop(instance: str, body: Stop, service: Service, caller: CurrentCaller) -> StopResult:
    """Stop deletion in one instance within 5 s. Claimed marks stay claimed. Idempotent."""
    return _stop(instance, body.reason, service, caller)


@routes.post("/stop")
@reserved
def stop_all(body: Stop, service: Service, caller: CurrentCaller) -> StopResult:
    """Stop deletion in every instance within 5 s. Idempotent."""
    return _stop(ALL, body.reason, service, caller, everything=True)


@routes.post("/instances/{instance}/start")
def start(instance: str, service: Service, caller: CurrentCaller) -> StopResult:
    """Revoke the stop of an instance; the answer names what else blocks it. Idempotent."""
    with caller.recorded(Deed("start", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        service.stores.controls.remove(ControlKind.STOP, instance)
        with service.db.read() as c:
            halt = service.stores.controls.halt(c, instance)
    return StopResult(instance=instance, stopped=False, still=str(halt or ""))


@routes.post("/start")
def start_all(service: Service, caller: CurrentCaller) -> StopResult:
    """Revoke the stop of all instances; stops of single instances stay. Idempotent."""
    with caller.recorded(Deed("start", ALL, Grant.OPERATE)):
        service.stores.controls.remove(ControlKind.STOP, ALL)
    return StopResult(instance=ALL, stopped=False)


@routes.get("/blockers")
def blockers(service: Service, caller: CurrentCaller, instance: CoveredInstance) -> BlockerRows:
    """Return everything that blocks deletions now, with the way out; Temporal is asked for a few seconds at most."""
    caller.require(Grant.READ, instance)
    listed = list_blockers(service, _named(instance))
    return BlockerRows(blockers=tuple(listed.rows), temporal_away=listed.temporal_away)


@routes.get("/why")
def why(key: Key, service: Service, caller: CurrentCaller, instance: CoveredInstance) -> StoriesBody:
    """Explain an object's key or a mark's id: live, marked, due, blocked and by what, claimed, or deleted."""
    caller.require(Grant.READ, instance)
    return StoriesBody(stories=tuple(service.stories(key, _named(instance))))


def _named(instance: str) -> str | None:
    return None if instance == EVERY_INSTANCE else instance


def _stop(name: str, reason: str, service: Service, caller: CurrentCaller, *, everything: bool = False) -> StopResult:
    with caller.recorded(Deed("stop", name, Grant.OPERATE, reason=reason), keeps=True):
        if not everything:
            service.stores.registry.instance(name)
        service.stores.controls.put(ControlKind.STOP, name, reason, by=caller.name)
    return StopResult(instance=name, stopped=True)
