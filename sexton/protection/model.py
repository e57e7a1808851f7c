"""A protection, as it is registered, kept and shown. Instants in ms since 1970."""

from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from sexton.kernel.message import Message

CHUNK_ITEMS = 12_500
"""Objects and prefixes of one chunk; a million objects are eighty of them."""
NAMED = 100
"""What is not kept is told by name up to so many."""


class ProtectionState(StrEnum):
    """Where a protection stands. It keeps what it covers in each of them, from the commit of its rows on."""

    OPEN = "OPEN"
    """Chunks are still registered, or nobody has sealed it."""
    ACTIVE = "ACTIVE"
    """Sealed: all it covers that was not named is there, and stays."""
    SOFT = "SOFT"
    """Finished by its job; keeps until the owner's watermark has passed ``valid_ts``."""


class Item(NamedTuple):
    """What is covered: one object of a vault, or with ``prefix`` every key that begins with this one, in bytes."""

    vault: str
    key: str
    prefix: bool = False


class ProtectionSettings(Message):
    """The settings of protections, in seconds."""

    ttl_seconds: int = 1_200
    """For how long one is asked for that names no time."""
    max_seconds: int = 86_400
    """The longest a registration or renewal reaches from now."""
    max_soft_hold_seconds: int = 86_400
    max_count: int = 100
    """Active ones of an instance."""
    strict_gate: bool = False
    """Refuse registrations while a round runs, as MatrixOne does."""


class Sealed(Message):
    """What came of a registration: how much is kept, and what is not (a few of each by name)."""

    objects: int = 0
    verified: bool = True
    """Every object was looked for; of a filter, which names none, only what is claimed can be told."""
    claimed: int = 0
    """Objects that are being deleted."""
    missing: int = 0
    """Objects that are not there: gone, or never there."""
    named: tuple[str, ...] = Field(default=(), max_length=NAMED)
    """``VAULT/KEY: claimed`` or ``VAULT/KEY: not there``."""


class Protection(Message):
    """One protection. ``valid_ts`` is a watermark value of the owner, not a time."""

    id: int = 0
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
    """Of what was registered, so that the same again is known."""
    sealed: Sealed | None = None


class ProtectionEnd(StrEnum):
    """Why a protection no longer keeps anything."""

    OVERDUE = "OVERDUE"
    """Its job neither renewed nor finished it: a warning."""
    PASSED = "PASSED"
    """The owner's watermark is above its ``valid_ts``: as it should be."""
    NO_WATERMARK = "NO_WATERMARK"
    """Finished, and the owner never reported a watermark to wait for: an alert."""
    TOO_LONG = "TOO_LONG"
    """Finished, and the watermark did not pass in ``max_soft_hold_seconds``: an alert."""
    RELEASED = "RELEASED"
    """By its owner or an administrator, at once."""
