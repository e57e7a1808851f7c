"""Protections of objects that sync jobs copy; see ``sexton.protection``."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path

from sexton.interfaces.api.caller import Caller, CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import reserved
from sexton.interfaces.operator_service import OperatorService
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import Item, Protection, Sealed
from sexton.protection.policy import canonical
from sexton.protection.registrar import Registrar
from sexton.protection.sql.rows import digest
from sexton.protection.sql.store import ProtectionStore
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.protections import Finish, Items, Registration, Release, Renewal, Seal, Watermark

routes = APIRouter(prefix="/v1/instances/{instance}", route_class=GuardedRoute)
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]


@routes.get("/protections")
def list_(instance: str, service: Service, caller: CurrentCaller) -> list[Protection]:
    """Return the registered protections, the oldest first."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    return list(service.stores.protections.list_protections(instance))


@routes.get("/protections/{job}")
def show(instance: str, job: str, service: Service, caller: CurrentCaller) -> Protection:
    """Return a job's protection."""
    caller.require(Grant.READ, instance, job=job)
    return service.stores.protections.find(instance, job)


@routes.post("/protections", status_code=201, max_body_size=MAX_ITEMS_BYTES)
def register(instance: str, body: Registration, service: Service, caller: CurrentCaller) -> Protection:
    """Register and seal the objects of a job; with ``digest``, only open the registration: chunks and a seal follow.

    Idempotent: a repeated registration returns the first one.
    """
    with caller.recorded(Deed("register", instance, Grant.OPERATE, body.job, job=body.job), keeps=True):
        return _register(instance, body, service, caller)


def _register(instance: str, body: Registration, service: OperatorService, caller: Caller) -> Protection:
    object_filter = None if body.filter is None else Filter.decode(body.filter)
    items = sorted(set(_items(service, instance, body)))
    chunked = body.digest is not None
    if chunked == bool(items or object_filter is not None) or (items and object_filter is not None):
        raise Invalid("send objects and prefixes, or a filter, or a digest and then chunks: exactly one of the three")
    filter_bytes = b"" if object_filter is None else bytes(object_filter)
    protection = Protection(
        instance=instance,
        job=body.job,
        owner=body.owner,
        description=body.description,
        valid_ts=body.valid_ts,
        digest=body.digest or digest(items, filter_bytes),
    )
    if chunked:
        return _protections(service, caller, instance).open(protection, body.ttl_seconds)
    return _registrar(service, caller, instance).register_at_once(
        protection, items, body.ttl_seconds, object_filter, body.on_missing
    )


@routes.put("/protections/{job}/chunks/{number}", max_body_size=MAX_ITEMS_BYTES)
def chunk(instance: str, job: str, number: Number, body: Items, service: Service, caller: CurrentCaller) -> Sealed:
    """Register one chunk; the answer names its objects that are missing or being deleted. Idempotent by number."""
    with caller.routine(Deed("register chunk", instance, Grant.OPERATE, job, job=job)):
        return _registrar(service, caller, instance).add(instance, job, number, _items(service, instance, body))


@routes.post("/protections/{job}/seal")
def seal(instance: str, job: str, body: Seal, service: Service, caller: CurrentCaller) -> Protection:
    """End a registration in chunks. Idempotent."""
    with caller.recorded(Deed("seal", instance, Grant.OPERATE, job, job=job), keeps=True):
        return service.stores.registrar.seal(instance, job, on_missing=body.on_missing, count=body.chunks)


@routes.patch("/protections/{job}")
@reserved
def renew(instance: str, job: str, body: Renewal, service: Service, caller: CurrentCaller) -> Protection:
    """Extend a protection."""
    with caller.routine(Deed("renew", instance, Grant.OPERATE, job, job=job)):
        protections = _protections(service, caller, instance)
        return protections.renew(instance, job, body.ttl_seconds, of=body.id, at_least=body.at_least)


@routes.post("/protections/{job}/finish")
@reserved
def finish(instance: str, job: str, service: Service, caller: CurrentCaller, body: Finish | None = None) -> Protection:
    """Record that the job is done. The protection ends when the watermark has passed ``valid_ts``. Idempotent."""
    with caller.recorded(Deed("finish", instance, Grant.OPERATE, job, job=job)):
        return service.stores.protections.finish(instance, job, of=None if body is None else body.id)


@routes.post("/protections/{job}/release")
@reserved
def release(instance: str, job: str, body: Release, service: Service, caller: CurrentCaller) -> Protection:
    """End a protection at once. Permitted for the job itself and for administrators."""
    with caller.recorded(Deed("release", instance, Grant.ADMIN, job, body.reason, job=job)):
        return service.stores.protections.release(instance, job, f"{caller.name}: {body.reason}")


@routes.put("/watermark", status_code=204)
def watermark(instance: str, body: Watermark, service: Service, caller: CurrentCaller) -> None:
    """Store how far the owner has come. The next round ends the finished protections below this value."""
    with caller.routine(Deed("watermark", instance, Grant.OWNER, str(body.value))):
        service.stores.protections.watermark(instance, body.value)


def _protections(service: OperatorService, caller: Caller, instance: str) -> ProtectionStore:
    """Return the register; a caller that is permitted only because the job is its own has a job's limits."""
    protections = service.stores.protections
    return protections if caller.permits(Grant.OPERATE, instance) else protections.for_job()


def _registrar(service: OperatorService, caller: Caller, instance: str) -> Registrar:
    registrar = service.stores.registrar
    return registrar if caller.permits(Grant.OPERATE, instance) else registrar.for_job()


def _items(service: OperatorService, instance: str, body: Items) -> Sequence[Item]:
    service.stores.registry.instance(instance)
    vaults = {vault.name: vault for vault in service.stores.registry.vaults(instance)}
    items = [canonical(name, vaults) for name in body.objects]
    return items + [canonical(name, vaults, prefix=True) for name in body.prefixes]
