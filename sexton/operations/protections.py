"""Sync protection: keep the objects that a job copies elsewhere until it is done."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import Field

from sexton.kernel.message import Page, StrictMessage
from sexton.kernel.printable import PRINTABLE
from sexton.operations.fields import MAX_NUMBER, Covered, Instance, Length, Names, Reason, Seconds, SignedInteger, Whole
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.protection.filter import Filter
from sexton.protection.model import Invalid, Item, Protection, Sealed

if TYPE_CHECKING:
    from sexton.protection.registrar import Registrar
    from sexton.protection.sql.store import ProtectionStore

Limited = TypeVar("Limited", "ProtectionStore", "Registrar")
JOB_PATH = "/v1/instances/{instance}/protections/{job}"
OF_JOB = Logged("{job}", job="{job}")
OnMissing = Literal["fail", "report"]
Job = Annotated[str, Field(max_length=200, description="The job's name; each run needs a name of its own.")]
ProtectionId = Annotated[
    Whole | None,
    Field(
        ge=-(2**63), le=2**63 - 1, description="The protection's number; if the job has another protection: NOT_FOUND."
    ),
]
ValidTs = Annotated[
    Whole | None, Field(ge=-(2**63), le=MAX_NUMBER, description="The watermark to wait for once the job is finished.")
]


class Items(StrictMessage):
    """Protected objects and prefixes, each as ``VAULT/KEY`` or a URL."""

    objects: Names = ()
    prefixes: Names = ()


class Registration(Items):
    """A protection to register. To register in chunks, send a ``digest`` of the caller's choice instead of items."""

    job: Annotated[str, Field(max_length=200)]
    owner: Annotated[str, Field(max_length=200)]
    description: Annotated[str, Field(max_length=500, pattern=PRINTABLE)] = ""
    filter: str | None = Field(None, description="base64, as sexton.client.Filter.encode() returns it")
    ttl_seconds: Seconds | None = None
    valid_ts: SignedInteger | None = Field(None, description="the watermark to wait for after the job has finished")
    on_missing: OnMissing = "fail"
    digest: str | None = Field(None, pattern="^[0-9A-Za-z]{16,128}$", description="of all chunks that follow")


@operation("protection list", "GET /v1/instances/{instance}/protections", Grant.READ, READS)
def protections(call: Call, instance: Covered = None) -> Page[Protection]:
    """Print registered protections, the oldest first.

    Example: sexton protection list shop
    """
    return Page[Protection](items=tuple(call.stores.protections.list_protections(instance)))


@operation("protection show", f"GET {JOB_PATH}", Grant.READ, replace(OF_JOB, changes=False))
def protection(call: Call, job: Job, *, instance: Instance) -> Protection:
    """Print a job's protection.

    Example: sexton protection show copy-7
    """
    return call.stores.protections.find(instance, job)


@operation(
    "protection register",
    "POST /v1/instances/{instance}/protections",
    Grant.OPERATE,
    Logged("{body.job}", job="{body.job}", keeps=True),
    is_large=True,
)
def register_at_once(call: Call, instance: Instance, body: Registration) -> Protection:
    """Register and seal the objects of a job; with ``digest``, only open the registration: chunks and a seal follow.

    Idempotent: a repeated registration returns the first one.
    """
    from sexton.protection.policy import digest

    object_filter = None if body.filter is None else Filter.decode(body.filter)
    items = sorted(set(_items(call, instance, body)))
    chunked = body.digest is not None
    if chunked == bool(items or object_filter is not None) or (items and object_filter is not None):
        raise Invalid("send objects and prefixes, or a filter, or a digest and then chunks: exactly one of the three")
    filter_bytes = b"" if object_filter is None else bytes(object_filter)
    protection = Protection(
        instance=instance,
        **body.model_dump(include={"job", "owner", "description", "valid_ts"}),
        digest=body.digest or digest(items, filter_bytes),
    )
    if chunked:
        return _limited(call, instance, call.stores.protections).open(protection, body.ttl_seconds)
    return _limited(call, instance, call.stores.registrar).register_at_once(
        protection, items, body.ttl_seconds, object_filter, body.on_missing
    )


@operation(
    "protection chunk", f"PUT {JOB_PATH}/chunks/{{number}}", Grant.OPERATE, replace(OF_JOB, routine=True), is_large=True
)
def register_chunk(
    call: Call, instance: Instance, job: Job, number: Annotated[int, Field(ge=0, le=2**31 - 1)], body: Items
) -> Sealed:
    """Register one chunk; the answer names its objects that are missing or being deleted. Idempotent by number."""
    return _limited(call, instance, call.stores.registrar).add(instance, job, number, _items(call, instance, body))


@operation("protection seal", f"POST {JOB_PATH}/seal", Grant.OPERATE, replace(OF_JOB, keeps=True))
def seal(
    call: Call,
    job: Job,
    *,
    on_missing: OnMissing = "fail",
    chunks: Annotated[Whole | None, Field(ge=1, description="The number of chunks that were sent.")] = None,
    instance: Instance,
) -> Protection:
    """End a registration in chunks. Repeatable.

    Example: sexton protection seal copy-7 --chunks 3
    """
    return call.stores.registrar.seal(instance, job, on_missing=on_missing, count=chunks)


@operation(
    "protection renew", f"PATCH {JOB_PATH}", Grant.OPERATE, replace(OF_JOB, routine=True, keeps=True, reserved=True)
)
def renew(
    call: Call,
    job: Job,
    *,
    ttl_seconds: Length | None = None,
    valid_ts: ValidTs = None,
    protection: ProtectionId = None,
    at_least: Annotated[bool, Field(description="Leave a time or watermark alone that is already later.")] = False,
    instance: Instance,
) -> Protection:
    """Extend a protection.

    Its end and its --valid-ts move only forwards; an earlier one is refused.

    Example: sexton protection renew copy-7 --for 1h
    """
    return _limited(call, instance, call.stores.protections).renew(
        instance, job, ttl_seconds, valid_ts=valid_ts, of=protection, at_least=at_least
    )


@operation("protection finish", f"POST {JOB_PATH}/finish", Grant.OPERATE, replace(OF_JOB, reserved=True))
def finish(call: Call, job: Job, *, protection: ProtectionId = None, instance: Instance) -> Protection:
    """Report that a job is done. Repeatable.

    Its objects stay protected until the owner's watermark has passed its --valid-ts; if no watermark was ever reported,
    until the next round.

    Example: sexton protection finish copy-7
    """
    return call.stores.protections.finish(instance, job, of=protection)


@operation("protection release", f"POST {JOB_PATH}/release", Grant.ADMIN, replace(OF_JOB, reserved=True))
def release(call: Call, job: Job, *, reason: Reason, instance: Instance) -> Protection:
    """End a protection now; the next round may delete the objects. Permitted for the job itself and administrators.

    Example: sexton protection release copy-7 --reason 'the job was given up'
    """
    return call.stores.protections.release(instance, job, f"{call.by}: {reason}")


@operation(
    "protection watermark", "PUT /v1/instances/{instance}/watermark", Grant.OWNER, Logged("{value}", routine=True)
)
def watermark(
    call: Call,
    instance: Instance,
    value: Annotated[Whole, Field(ge=0, le=2**63 - 1, description="A number of the owner's own.")],
) -> None:
    """Report the owner's progress.

    Finished protections with a lower --valid-ts end with the next round.

    Example: sexton protection watermark shop 1700
    """
    call.stores.protections.watermark(instance, value)


def _limited(call: Call, instance: str, store: Limited) -> Limited:
    """Return a store; a caller that is permitted only because the job is its own has a job's limits."""
    return store if call.caller.permits(Grant.OPERATE, instance) else store.for_job()


def _items(call: Call, instance: str, body: Items) -> Sequence[Item]:
    from sexton.protection.policy import canonical

    vaults = {vault.name: vault for vault in call.stores.registry.vaults(instance)}
    items = [canonical(name, vaults) for name in body.objects]
    return items + [canonical(name, vaults, prefix=True) for name in body.prefixes]
