"""Instances and their vaults: mode, owner, caps; and how fast places are deleted from."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import CoveredInstance, CurrentCaller, Deed, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.marks.sql.whole import is_dropped
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.registry.store import Instance
from sexton.protocol.operating import InstanceList, NewCap, Paces, ShownInstance, ShownVault, VaultList, Why
from sexton.storage.model import VaultSpec

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
Vault = Annotated[str, Path(max_length=63)]
Prove = Annotated[bool, Query(description="compare the marker of each vault now, and name the fault")]


@routes.get("/instances")
def instances(service: Service, caller: CurrentCaller, instance: CoveredInstance) -> InstanceList:
    """Return the instances that the token covers, also those that were dropped and deleted."""
    caller.require(Grant.READ, instance)
    rows = [row for row in service.stores.registry.instances(deleted=True) if instance in (EVERY_INSTANCE, row.id)]
    with service.db.read() as c:
        return InstanceList(instances=tuple(_shown(row, is_dropped(service.db, c, row.id)) for row in rows))


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


@routes.get("/instances/{instance}/vaults")
def vaults(instance: str, service: Service, caller: CurrentCaller, prove: Prove = False) -> VaultList:
    """Return the vaults of the instance, with their caps."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    caps = {cap.vault: cap.keys_per_second for cap in service.stores.paces.caps(instance)}
    fault = service.stores.vaults.fault
    shown = [
        _vault(spec, caps.get(spec.name), fault(instance, spec.name) if prove else None)
        for spec in service.stores.registry.vaults(instance)
    ]
    return VaultList(vaults=tuple(shown))


@routes.put("/instances/{instance}/vaults/{vault}/cap", status_code=204)
def cap(instance: str, vault: Vault, body: NewCap, service: Service, caller: CurrentCaller) -> None:
    """Cap the deletions in a vault over all workers, within 5 s. Idempotent."""
    subject = f"{instance}/{vault} {body.keys_per_second}/s"
    with caller.recorded(Deed("pace", instance, Grant.OPERATE, subject, body.reason), keeps=True):
        service.stores.registry.vault(instance, vault)
        service.stores.paces.put_cap(f"{instance}/{vault}", body.keys_per_second, body.reason, caller.name)


@routes.delete("/instances/{instance}/vaults/{vault}/cap", status_code=204)
def clear_cap(instance: str, vault: Vault, service: Service, caller: CurrentCaller) -> None:
    """Remove the cap of a vault. Idempotent."""
    with caller.recorded(Deed("pace clear", instance, Grant.OPERATE, f"{instance}/{vault}")):
        service.stores.registry.vault(instance, vault)
        service.stores.paces.clear_cap(f"{instance}/{vault}")


@routes.get("/pace")
def pace(service: Service, caller: CurrentCaller) -> Paces:
    """Return how fast each place is deleted from, as its store permits; a place may serve several instances."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return Paces(places=tuple(service.stores.paces.figures()))


def _shown(row: Instance, dropped: bool) -> ShownInstance:
    return ShownInstance(
        instance=row.id,
        mode=row.mode,
        owner=row.owner,
        live_view=row.live_view,
        created_at=row.created_at,
        enabled_at=row.enabled_at,
        dropped=dropped,
    )


def _vault(spec: VaultSpec, keys_per_second: int | None, fault: str | None) -> ShownVault:
    return ShownVault(
        vault=spec.name,
        kind=spec.kind,
        place=f"{spec.location}/{spec.prefix}",
        endpoint=spec.endpoint or "",
        versions=spec.versions,
        conditional=spec.conditional,
        keys_per_second=keys_per_second,
        fault=fault,
    )
