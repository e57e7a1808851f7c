"""Values of protections: what a job registers, and what is stored and shown. Instants are ms since 1970.

The errors of protections, all under ``ProtectionError``, with the codes that sync jobs know from MatrixOne.
"""

from enum import StrEnum
from typing import ClassVar, NamedTuple

from pydantic import Field

from sexton.kernel.errors import BadInput, Conflict, NotFound, SextonError, TooMany
from sexton.kernel.message import Message

CHUNK_ITEMS = 12_500
"""Objects and prefixes of one chunk; a million objects are eighty chunks."""
NAMED = 100
"""Objects that are named at most, of those that a registration cannot protect."""


class ProtectionState(StrEnum):
    """The states of a protection. In each of them it blocks deletion, from the commit of its rows on."""

    OPEN = "OPEN"
    """The job still registers chunks, or has not sealed it."""
    ACTIVE = "ACTIVE"
    """Sealed: every object that it covers exists and stays, except those that the seal named."""
    SOFT = "SOFT"
    """Finished by its job; it blocks deletion until the owner's watermark has passed ``valid_ts``."""


class Item(NamedTuple):
    """One object of a vault, or with ``prefix`` every object whose key begins with ``key``, in bytes."""

    vault: str
    key: str
    prefix: bool = False


class ProtectionSettings(Message):
    """The settings of protections; durations in seconds."""

    ttl_seconds: int = 1_200
    """Duration of a protection whose registration gives none."""
    max_seconds: int = 86_400
    """Longest duration of a registration or renewal, from now."""
    max_soft_hold_seconds: int = 86_400
    """Longest time for which a finished protection waits for the watermark."""
    max_count: int = 100
    """Most active protections of an instance."""
    strict_gate: bool = False
    """Refuse registrations while a round runs, as MatrixOne does."""
    job_max_protections: int = 10
    """Most protections of a job and its runs, finished ones included."""
    job_max_objects: int = 5_000_000
    """Most objects and prefixes of a job and its runs; a filter counts with its keys."""
    job_max_bytes: int = 2**50
    """Most bytes of the objects of a job and its runs, as far as they were looked up."""
    job_max_age_seconds: int = 604_800
    """Age up to which a job's own token extends its protection."""


class JobUsage(NamedTuple):
    """What a job and its runs use of the job's quota."""

    protections: int
    objects: int
    bytes: int


class Sealed(Message):
    """The result of a registration: how much it protects, and what it cannot protect (a few objects by name)."""

    objects: int = 0
    verified: bool = True
    """Every object was looked up. A filter names no objects, so only those being deleted can be found."""
    bytes: int = 0
    """Of its objects that exist; those under prefixes and in filters are not looked up."""
    claimed: int = 0
    """Objects that are being deleted."""
    missing: int = 0
    """Objects that do not exist: deleted, or never written."""
    named: tuple[str, ...] = Field(default=(), max_length=NAMED)
    """``VAULT/KEY: claimed`` or ``VAULT/KEY: not there``."""


class ProtectionEnd(StrEnum):
    """Why a protection ended."""

    OVERDUE = "OVERDUE"
    """Its job neither renewed nor finished it in time: a warning."""
    PASSED = "PASSED"
    """The owner's watermark is above its ``valid_ts``: the normal end."""
    NO_WATERMARK = "NO_WATERMARK"
    """Finished, and the owner never reported a watermark to wait for: an alert."""
    TOO_LONG = "TOO_LONG"
    """Finished, and the watermark did not pass in ``max_soft_hold_seconds``: an alert."""
    RELEASED = "RELEASED"
    """Its owner or an administrator released it."""


class Protection(Message):
    """One protection. ``valid_ts`` is a watermark value of the owner, not an instant."""

    id: int = Field(0, alias="protection")
    instance: str
    job: str
    owner: str
    description: str = ""
    state: ProtectionState = ProtectionState.OPEN
    valid_ts: int | None = None
    registered_at: int = 0
    expires_at: int = 0
    finished_at: int | None = None
    digest: str = ""
    """Of everything that the job registers, by which a repeated registration is recognized."""
    sealed: Sealed | None = None
    ends: ProtectionEnd | None = None
    """Why the next round ends it; None: it does not, or this was not looked up."""


class ProtectionError(SextonError):
    """An operation on a protection was refused; ``code`` and ``name`` are the same in API, client and CLI."""

    code: ClassVar[int]
    name: ClassVar[str]


class GcIsRunning(ProtectionError):
    """A round runs, and ``strict_gate`` is on."""

    code, name, passes = 20642, "GC_IS_RUNNING", True


class ProtectionNotFound(NotFound, ProtectionError):
    """The job has no protection."""

    code, name = 20643, "NOT_FOUND"


class Exists(Conflict, ProtectionError):
    """The job has another protection already: of other objects, or one that is finished and still blocks deletion."""

    code, name = 20644, "EXISTS"


class MaxCount(TooMany, ProtectionError):
    """The instance has the maximum number of active protections."""

    code, name = 20645, "MAX_COUNT"


class JobQuotaExceeded(MaxCount):
    """The job, with all of its runs, has used up its own quota: the message names the limit and the setting."""

    name = "JOB_QUOTA"


class SoftDeleted(Conflict, ProtectionError):
    """The protection is finished; it cannot be renewed."""

    code, name = 20646, "SOFT_DELETED"


class Invalid(ProtectionError, BadInput):
    """The request is not valid: an unreadable filter, a bad key, a duration out of range."""

    code, name = 20647, "INVALID"
