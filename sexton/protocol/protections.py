"""Protections: what sync jobs register, and the errors that the API refuses them with."""

from typing import Annotated, Literal

from pydantic import Field

from sexton.protection.errors import (
    Exists,
    GcIsRunning,
    Invalid,
    JobQuotaExceeded,
    MaxCount,
    ProtectionNotFound,
    SoftDeleted,
)
from sexton.protection.filter import Filter
from sexton.protection.model import CHUNK_ITEMS, Item, Protection, Sealed
from sexton.protocol.body import PRINTABLE, Body, Names, Reason, Seconds, SignedInteger

__all__ = [
    "CHUNK_ITEMS",
    "Exists",
    "Filter",
    "Finish",
    "GcIsRunning",
    "Invalid",
    "Item",
    "Items",
    "JobQuotaExceeded",
    "MaxCount",
    "OnMissing",
    "Protection",
    "ProtectionNotFound",
    "Registration",
    "Release",
    "Renewal",
    "Seal",
    "Sealed",
    "SoftDeleted",
    "Watermark",
]
OnMissing = Literal["fail", "report"]


class Items(Body):
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


class Seal(Body):
    """The end of a registration in chunks."""

    on_missing: OnMissing = "fail"
    chunks: int | None = Field(None, ge=1, description="the number of chunks that were sent")


class Renewal(Body):
    """The new end of a protection."""

    ttl_seconds: Seconds | None = None
    id: SignedInteger | None = Field(
        None,
        alias="protection",
        description="the protection's number; if the job has another protection: NOT_FOUND",
    )
    at_least: bool = Field(False, description="leave a protection alone that already lasts longer")


class Finish(Body):
    """The protection whose job is done."""

    id: SignedInteger | None = Field(
        None,
        alias="protection",
        description="the protection's number; if the job has another protection: NOT_FOUND",
    )


class Release(Body):
    """Why an operator ends a protection at once."""

    reason: Reason


class Watermark(Body):
    """How far the owner has come, in numbers of its own."""

    value: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]
