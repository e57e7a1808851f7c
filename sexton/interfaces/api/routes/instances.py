"""Instances: mode and owner; and how fast places are deleted from."""

from fastapi import APIRouter

from sexton.interfaces.api.caller import CoveredInstance, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operations.registry import Deed
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.registry.store import Instance
from sexton.protocol.operating import InstanceList, Paces, ShownInstance, Why

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)


@routes.get("/instances")
def instances(service: Service, caller: CurrentCaller, instance: CoveredInstance) -> InstanceList:
    """Return the instances that the token covers."""
    caller.require(Grant.READ, instance)
    rows = [row for row in service.stores.registry.instances() if instance in (EVERY_INSTANCE, row.id)]
    return InstanceList(instances=tuple(map(_shown, rows)))


@routes.post("/instances/{instance}/enable", status_code=204)
def enable(instance: str, service: Service, caller: CurrentCaller, body: Why | None = None) -> None:
    """Allow rounds of the instance to delete. Review a plan first. Idempotent."""
    with caller.recorded(Deed("enable", instance, Grant.OPERATE, reason=body.reason if body else "")):
        service.enable(instance)


@routes.post("/instances/{instance}/observe", status_code=204)
def observe(instance: str, service: Service, caller: CurrentCaller, body: Why | None = None) -> None:
    """Let rounds of the instance only plan and report; claimed marks stay claimed. Idempotent."""
    deed = Deed("instance observe", instance, Grant.OPERATE, reason=body.reason if body else "")
    with caller.recorded(deed, keeps=True):
        service.stores.registry.observe(instance)


@routes.get("/pace")
def pace(service: Service, caller: CurrentCaller) -> Paces:
    """Return how fast each place is deleted from, as its store permits; a place may serve several instances."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return Paces(places=tuple(service.stores.paces.figures()))


def _shown(row: Instance) -> ShownInstance:
    return ShownInstance(
        instance=row.id,
        mode=row.mode,
        owner=row.owner,
        live_view=row.live_view,
        created_at=row.created_at,
        enabled_at=row.enabled_at,
    )
