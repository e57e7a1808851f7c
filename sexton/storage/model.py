"""Values that pass between the engine and a vault: specs, markers, listed objects, and one outcome per key."""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T", bound=tuple[Any, ...])
MARKER_KEY = "_sexton/vault.json"
RESERVED_PREFIX = "_sexton/"
PAGE_SECONDS = 20.0
"""No request of a page of deletes begins later than this after the page began, so that it ends before a lease does."""
REQUEST_SECONDS = 15.0
"""How long one request to a store may take: to connect, and to wait for the answer."""
VERIFIED_SECONDS = 2.0
"""The longest time between the verification of a page's token and the beginning of the page."""
IN_FLIGHT_SECONDS = VERIFIED_SECONDS + PAGE_SECONDS + REQUEST_SECONDS
"""The longest time for which requests of a page go on after its token was verified."""
PAGE_KEYS = 1_000
"""Keys of one DeleteObjects request (S3 API limit)."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True)


class Probe(_Value):
    """How a store behaved when it was tried. None: not tried (no permission, or the bucket is not versioned)."""

    at: int = Field(0, alias="happened_at")
    """When it was tried, in ms since 1970."""
    versioning: Literal["", "Enabled", "Suspended", "not told"] = ""
    per_key_errors: bool | None = None
    """A refused key of a multi-delete is one error in a reply that covers the other keys too."""
    quiet: bool | None = None
    """A quiet multi-delete names only what failed."""
    tells_absent: bool | None = None
    """A multi-delete reports a missing key as missing."""
    etag_single: bool | None = None
    """A single delete with ``If-Match`` keeps an object with another ETag, and deletes the one that was meant."""
    etag_multi: bool | None = None
    """The same for an ETag of each key of a multi-delete."""
    versions: bool | None = None
    """Versions and delete markers are listed, and can be deleted by version id."""
    versions_paging: bool | None = None
    """A listing of versions in small pages shows everything that one page shows, in byte order of keys."""
    object_lock: str = ""
    """``off``, ``on``, or what it locks new versions for by default (``COMPLIANCE for 30 days``); empty: unknown."""
    order: Literal["byte", "path", "other"] | None = None
    """Order of keys in a listing; ``path``: a folder's keys come before ``FOLDER-x``, as in a store that has a tree."""
    paging: bool | None = None
    """A listing in small pages shows everything that one page shows."""
    start_after: bool | None = None
    encoding_type: bool | None = None
    """Keys with characters that XML cannot express are listed correctly."""
    wrong_credentials_refused: bool | None = None
    left: int = 0
    """Versions of the probe's own files that the store did not delete (object lock, no permission)."""


class VaultSpec(_Value):
    """Where a vault is, as stored in its row. It never holds secrets.

    ``kind`` is a key of ``VAULT_KINDS`` (``kinds.py``), ``location`` the bucket or the absolute root directory.
    ``prefix`` is empty or ends with ``/``. ``endpoint`` is empty for the settings' ``s3.endpoint_url`` (or AWS itself).
    """

    instance: str
    name: str
    kind: str
    location: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    profile: str = ""
    uuid: str = ""
    deployment: str = ""
    versions: Literal["keep", "purge"] = "keep"
    """In a versioned bucket a delete adds a marker (it can be undone, no byte is freed), or removes all versions."""
    conditional: bool = False
    """A delete names the ETag that it means; an object that was rewritten since then is not deleted."""
    inventory: str = ""
    """Where the store writes inventories of the bucket, ``s3://BUCKET/PREFIX``: checks read them instead of listing."""
    probe: Probe | None = None


class ClaimId(NamedTuple):
    """A claim of a round, or its beginning, which is numbered as a claim. Later ones of an instance compare greater."""

    number: int
    round: int


class Marker(_Value):
    """The content of ``_sexton/vault.json``: the vault's identity, its deployment, its last round, and the last claim.

    A database that does not know that round or that claim is an older copy: restored from a backup, or cloned.
    ``claim``: 0: no round has begun. ``claim_key``: a random text, because a copied database reuses the numbers of its
    original.
    """

    vault_uuid: str
    deployment: str
    instance: str
    name: str
    round: int = 0
    run: str = ""
    claim: int = 0
    claim_key: str = ""

    @property
    def last_claim(self) -> ClaimId:
        """Return the last claim whose files may be deleted in the vault."""
        return ClaimId(self.claim, self.round)


class ListedObject(NamedTuple):
    """One object as a listing shows it; ``key`` is relative to the vault's prefix."""

    key: str
    bytes: int
    etag: str = ""
    written: str = ""
    """By the store's clock: ``YYYY-MM-DDTHH:MM:SS`` in UTC, so that texts compare; empty: unknown."""


class ReportFile(NamedTuple):
    """A file of an inventory's report. ``key``: in the bucket of the inventory. Its other values prove what it is."""

    key: str
    as_of: int
    """When the report was begun, ms since 1970: what was written later may be missing."""
    md5: str = ""
    etag: str = ""
    columns: tuple[str, ...] = ()
    """The names of its columns, where the file does not have them."""


class VaultPart(NamedTuple):
    """A part of a vault that is listed by itself; the parts of one cut together hold each object once."""

    prefix: str = ""
    """A folder's path that ends with ``/``, or empty for the whole vault."""
    loose: bool = False
    """Only objects directly in the folder, not in folders below it."""
    after: str = ""
    until: str = ""
    """Only keys beyond ``after`` and up to ``until``, in byte order; an empty bound does not limit."""
    report: ReportFile | None = None
    """A file of an inventory, instead of a listing."""


class KeyOutcome(StrEnum):
    """The result of deleting one key of a page."""

    DELETED = "deleted"
    ABSENT = "absent"
    """The object did not exist; reported only while the vault's identity is proved."""
    HIDDEN = "hidden"
    """A delete marker hides the object (versioned bucket); no byte was freed."""
    THROTTLED = "throttled"
    """The store throttles (SlowDown, InternalError, 503): the key is tried again in this round."""
    FAILED = "failed"
    """Refused for this key (AccessDenied, ...): its record stays. For an object lock the reason has ``LOCKED``."""
    CHANGED = "changed"
    """A conditional delete found another object than the one that was resolved; it was not deleted."""


class KeyResult(NamedTuple):
    """The outcome for one key. ``bytes`` is set only where the vault measured it itself (local, purged versions).

    ``retry_after``: seconds that the store asked to wait, with THROTTLED. ``alone``: the store failed at this key only,
    which does not mean that it is busy.
    """

    key: str
    outcome: KeyOutcome
    reason: str = ""
    bytes: int | None = None
    retry_after: float | None = None
    alone: bool = False


def rows(kind: type[T], *columns: Iterable[Any]) -> list[T]:
    """Return a NamedTuple for each row of its columns, up to the end of the shortest; calling the class is slower."""
    return [*map(partial(tuple.__new__, kind), zip(*columns, strict=False))]


class Undeleted(_Value):
    """The result of one page of an undelete; every number counts keys except ``markers`` and ``bytes``."""

    examined: int = 0
    shown: int = 0
    """Keys that are visible again, or would be (dry run)."""
    markers: int = 0
    bytes: int = 0
    """Of the versions that are visible again."""
    nothing_left: int = 0
    """Keys with only delete markers: no version is left to show."""
    older: int = 0
    """Shown keys that were deleted while versioning was suspended: their newest content may be gone for good."""
    failed: int = 0
    reason: str = ""
    """Of the first failure."""
