"""What passes between the engine and a vault: specs, markers, listed objects, and one outcome per key."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

MARKER_KEY = "_sexton/vault.json"
RESERVED_PREFIX = "_sexton/"
PAGE_KEYS = 1_000
"""Keys of one DeleteObjects request (S3 API limit)."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class VaultSpec(_Value):
    """Where a vault is, as stored in its row. Secrets are never part of it.

    ``location`` is the bucket for ``s3`` and the absolute root directory for ``local``. ``prefix`` is empty or ends
    with ``/``. ``endpoint`` is empty when the settings' ``s3.endpoint_url`` (or AWS itself) is meant.
    """

    instance: str
    name: str
    kind: Literal["s3", "local"]
    location: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    uuid: str = ""
    deployment: str = ""


class Marker(_Value):
    """The content of ``_sexton/vault.json``: who this vault is, which deployment may delete in it, and the last round
    that did. A database that does not know that round is an older copy: restored from a backup, or cloned."""

    vault_uuid: str
    deployment: str
    instance: str
    name: str
    round: int = 0
    run: str = ""


class Listed(_Value):
    """One object as a listing shows it; ``key`` is relative to the vault's prefix."""

    key: str
    bytes: int
    etag: str = ""


class Outcome(StrEnum):
    """What became of one key of a delete page."""

    DELETED = "deleted"
    ABSENT = "absent"
    """It was not there; only ever said while the vault is proved to be ours."""
    HIDDEN = "hidden"
    """A delete marker hides it (versioned bucket); no byte was freed."""
    THROTTLED = "throttled"
    """The store asks for patience (SlowDown, InternalError, 503): try again in this round."""
    FAILED = "failed"
    """Refused for this key (AccessDenied, ...): its record stays."""


class KeyResult(_Value):
    """The outcome for one key. ``bytes`` is set only where the vault measured it itself (local)."""

    key: str
    outcome: Outcome
    reason: str = ""
    bytes: int | None = None
