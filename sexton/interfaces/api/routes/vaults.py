"""Vaults: where objects are, whether each can be proved, what its store can do, and how fast it is deleted from."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.protocol.operating import NewCap, Probe, ShownVault, Trusted, TrustOrder, VaultList
from sexton.storage.model import VaultSpec

routes = APIRouter(prefix="/v1/instances/{instance}/vaults", route_class=GuardedRoute)
Vault = Annotated[str, Path(max_length=63)]
Prove = Annotated[bool, Query(description="compare the marker of each vault now, and name the fault")]


@routes.get("")
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


@routes.put("/{vault}/cap", status_code=204)
def cap(instance: str, vault: Vault, body: NewCap, service: Service, caller: CurrentCaller) -> None:
    """Cap the deletions in a vault over all workers, within 5 s. Idempotent."""
    subject = f"{instance}/{vault} {body.keys_per_second}/s"
    with caller.recorded(Deed("pace", instance, Grant.OPERATE, subject, body.reason), keeps=True):
        service.stores.registry.vault(instance, vault)
        service.stores.paces.put_cap(f"{instance}/{vault}", body.keys_per_second, body.reason, caller.name)


@routes.delete("/{vault}/cap", status_code=204)
def clear_cap(instance: str, vault: Vault, service: Service, caller: CurrentCaller) -> None:
    """Remove the cap of a vault. Idempotent."""
    with caller.recorded(Deed("pace clear", instance, Grant.OPERATE, f"{instance}/{vault}")):
        service.stores.registry.vault(instance, vault)
        service.stores.paces.clear_cap(f"{instance}/{vault}")


@routes.post("/{vault}/probe")
def probe(instance: str, vault: Vault, service: Service, caller: CurrentCaller) -> Probe:
    """Probe again what the vault's store really does, and store the result; workers use it within 5 s. Idempotent."""
    with caller.recorded(Deed("vault probe", instance, Grant.OPERATE, vault)):
        return service.probe(instance, vault)


@routes.post("/{vault}/trust")
def trust(instance: str, vault: Vault, body: TrustOrder, service: Service, caller: CurrentCaller) -> Trusted:
    """Allow this database to delete in a vault in which a newer copy of it has deleted. Idempotent.

    First verify that no mark of this copy was undropped in the newer one: its files would be deleted.
    """
    with caller.recorded(Deed("vault trust", instance, Grant.ADMIN, vault, body.reason)):
        return Trusted(instance=instance, vault=vault, round=service.trust(instance, vault))


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
