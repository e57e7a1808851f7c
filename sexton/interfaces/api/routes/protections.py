"""What jobs copy elsewhere stays until they are done; see ``sexton.protection``."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Path

from sexton.interfaces.api.caller import Asker, AtDesk, Reader
from sexton.interfaces.operator_service import OperatorService
from sexton.operators.access.model import Grant
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import Item, Protection, Sealed
from sexton.protection.policy import canonical
from sexton.protection.sql.rows import digest
from sexton.protocol.body import MAX_ITEMS_BYTES
from sexton.protocol.protections import Finish, Items, Registration, Release, Renewal, Seal, Watermark

routes = APIRouter(prefix="/v1/instances/{instance}")
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]


@routes.get("/protections")
def list_(instance: str, at: AtDesk, _: Reader) -> list[Protection]:
    """Return what is registered, the oldest first."""
    at.registry.instance(instance)
    return list(at.protections.all(instance))


@routes.get("/protections/{job}")
def show(instance: str, job: str, at: AtDesk, asker: Asker) -> Protection:
    """Return a job's protection."""
    asker.needs(Grant.READ, job)
    return at.protections.find(instance, job)


@routes.post("/protections", status_code=201, max_body_size=MAX_ITEMS_BYTES)
def register(instance: str, body: Registration, at: AtDesk, asker: Asker) -> Protection:
    """Register what a job copies and seal it; with ``digest`` only open it: its chunks and a seal follow.

    Idempotent: the same again returns what was made first.
    """
    asker.needs(Grant.OPERATE, body.job)
    filter_ = None if body.filter is None else Filter.decode(body.filter)
    items = sorted(set(_items(at, instance, body)))
    chunked = body.digest is not None
    if chunked == bool(items or filter_ is not None) or (items and filter_ is not None):
        raise Invalid("send objects and prefixes, or a filter, or a digest and then chunks: exactly one of the three")
    sum_ = body.digest or digest(items, b"" if filter_ is None else bytes(filter_))
    wanted = Protection(
        instance=instance,
        job=body.job,
        owner=body.owner,
        description=body.description,
        valid_ts=body.valid_ts,
        digest=sum_,
    )
    if chunked:
        return at.protections.open(wanted, body.ttl_seconds)
    return at.registrar.whole(wanted, items, body.ttl_seconds, filter_, body.on_missing)


@routes.put("/protections/{job}/chunks/{number}", max_body_size=MAX_ITEMS_BYTES)
def chunk(instance: str, job: str, number: Number, body: Items, at: AtDesk, asker: Asker) -> Sealed:
    """Register one chunk; what of it is being deleted or is not there is named. Idempotent by its number."""
    asker.needs(Grant.OPERATE, job)
    return at.registrar.add(instance, job, number, _items(at, instance, body))


@routes.post("/protections/{job}/seal")
def seal(instance: str, job: str, body: Seal, at: AtDesk, asker: Asker) -> Protection:
    """Make chunks a protection. Idempotent."""
    asker.needs(Grant.OPERATE, job)
    return at.registrar.seal(instance, job, on_missing=body.on_missing, count=body.chunks)


@routes.patch("/protections/{job}")
def renew(instance: str, job: str, body: Renewal, at: AtDesk, asker: Asker) -> Protection:
    """Move its end forward."""
    asker.needs(Grant.OPERATE, job)
    return at.protections.renew(instance, job, body.ttl_seconds, of=body.id, at_least=body.at_least)


@routes.post("/protections/{job}/finish")
def finish(instance: str, job: str, at: AtDesk, asker: Asker, body: Finish | None = None) -> Protection:
    """Say that the job is done; it keeps until the watermark has passed ``valid_ts``. Idempotent."""
    with asker.recorded(at, "finish", instance, job):
        asker.needs(Grant.OPERATE, job)
        return at.protections.finish(instance, job, of=None if body is None else body.id)


@routes.post("/protections/{job}/release")
def release(instance: str, job: str, body: Release, at: AtDesk, asker: Asker) -> Protection:
    """End it at once; its own job may, and an administrator."""
    with asker.recorded(at, "release", instance, job, body.reason):
        asker.needs(Grant.ADMIN, job)
        return at.protections.release(instance, job, f"{asker.token.name}: {body.reason}")


@routes.put("/watermark", status_code=204)
def watermark(instance: str, body: Watermark, at: AtDesk, asker: Asker) -> None:
    """Say how far the owner has come; finished protections below it end with the next round."""
    with asker.recorded(at, "watermark", instance, str(body.value)):
        asker.needs(Grant.OPERATE)
        at.protections.watermark(instance, body.value)


def _items(at: OperatorService, instance: str, body: Items) -> Sequence[Item]:
    at.registry.instance(instance)
    vaults = {v.name: v for v in at.registry.vaults(instance)}
    items = [canonical(name, vaults) for name in body.objects]
    return items + [canonical(name, vaults, prefix=True) for name in body.prefixes]
