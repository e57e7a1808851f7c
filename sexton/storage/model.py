"""What passes between the engine and a vault: specs, markers, listed objects, and one outcome per key."""

from enum import StrEnum
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

MARKER_KEY = "_sexton/vault.json"
RESERVED_PREFIX = "_sexton/"
PAGE_KEYS = 1_000
"""Keys of one DeleteObjects request (S3 API limit)."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True)


class Probe(_Value):
    """What a store was seen to do when it was tried. None: it could not be tried (no permission, or not versioned)."""

    at: int = 0
    """When, ms since 1970."""
    versioning: Literal["", "Enabled", "Suspended", "not told"] = ""
    per_key_errors: bool | None = None
    """A refused key of a multi-delete is an error in a reply that says what became of the others."""
    quiet: bool | None = None
    """A quiet multi-delete names only what failed."""
    tells_absent: bool | None = None
    """A multi-delete says of a missing key that it is missing."""
    etag_single: bool | None = None
    """``If-Match`` on a single delete keeps an object with another ETag, and lets the one that is meant go."""
    etag_multi: bool | None = None
    """The same of an ETag for each key of a multi-delete."""
    versions: bool | None = None
    """Versions and delete markers are listed, and go by version id."""
    versions_paging: bool | None = None
    """A listing of versions in small pages shows all that one page shows, in byte order of keys."""
    order: Literal["byte", "path", "other"] | None = None
    """Of a listing; ``path``: a folder's keys come before ``FOLDER-x``, as from a store that keeps a tree."""
    paging: bool | None = None
    """A listing in small pages shows all that one page shows."""
    start_after: bool | None = None
    encoding_type: bool | None = None
    """Keys that XML cannot hold are listed as they are."""
    wrong_credentials_refused: bool | None = None
    left: int = 0
    """Versions of the probe's own files that the store kept (object lock, no permission)."""


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
    versions: Literal["keep", "purge"] = "keep"
    """In a versioned bucket: a delete leaves a marker (undeletable, no byte freed), or removes every version."""
    conditional: bool = False
    """A delete names the ETag it means; an object that was rewritten since is kept."""
    probe: Probe | None = None


class Marker(_Value):
    """The content of ``_sexton/vault.json``: who this vault is, which deployment may delete in it, and the last round
    that did. A database that does not know that round is an older copy: restored from a backup, or cloned."""

    vault_uuid: str
    deployment: str
    instance: str
    name: str
    round: int = 0
    run: str = ""


class Listed(NamedTuple):
    """One object as a listing shows it; ``key`` is relative to the vault's prefix."""

    key: str
    bytes: int
    etag: str = ""
    written: str = ""
    """When, by the store's clock: ``YYYY-MM-DDTHH:MM:SS`` in UTC, so that texts compare; empty where it is not told."""


class Shard(NamedTuple):
    """A part of a vault to be listed by itself; all parts of one cut together hold each object once."""

    prefix: str = ""
    """A folder's path that ends with ``/``, or empty for the whole vault."""
    loose: bool = False
    """Only what lies directly in the folder, not what lies in folders below it."""
    after: str = ""
    until: str = ""
    """Only keys beyond ``after`` and up to ``until``, in byte order, where these are named."""


class KeyOutcome(StrEnum):
    """What became of one key of a delete page."""

    DELETED = "deleted"
    ABSENT = "absent"
    """It was not there; only ever said while the vault is proved to be ours."""
    HIDDEN = "hidden"
    """A delete marker hides it (versioned bucket); no byte was freed."""
    THROTTLED = "throttled"
    """The store asks for patience (SlowDown, InternalError, 503): try again in this round."""
    FAILED = "failed"
    """Refused for this key (AccessDenied, ...): its record stays. By an object lock: the reason says ``LOCKED``."""
    CHANGED = "changed"
    """A conditional delete found another object under this key than the one that was resolved; it was not deleted."""


class KeyResult(NamedTuple):
    """The outcome for one key. ``bytes`` is set only where the vault measured it itself (local, purged versions).

    ``retry_after``: seconds the store asked to wait, with THROTTLED. ``alone``: it failed at this key, which does not
    say that it is busy.
    """

    key: str
    outcome: KeyOutcome
    reason: str = ""
    bytes: int | None = None
    retry_after: float | None = None
    alone: bool = False


class Undeleted(_Value):
    """What became of one page of an undelete, in keys but for ``markers`` and ``bytes``."""

    looked_at: int = 0
    shown: int = 0
    """Keys that are visible again, or would be."""
    markers: int = 0
    bytes: int = 0
    """Of the versions that are visible again."""
    nothing_left: int = 0
    """Keys of which only delete markers are left: no version could be shown."""
    failed: int = 0
    reason: str = ""
    """Of the first failure."""
