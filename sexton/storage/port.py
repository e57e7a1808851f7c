"""The port of a vault, and the error that blocks every deletion in it."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeAlias

from sexton.kernel.errors import NotFound, SextonError
from sexton.storage.model import ClaimId, KeyResult, ListedObject, Marker, Probe, Undeleted, VaultPart, VaultSpec

if TYPE_CHECKING:
    from pyarrow import RecordBatch

UNREACHABLE, BAD_REPLY = "UNREACHABLE", "BAD_REPLY"
FAULTS = frozenset(
    {UNREACHABLE, "NO_BUCKET", "NO_MARKER", "FOREIGN_MARKER", "BEHIND", "DENIED", BAD_REPLY, "THROTTLED"}
)
"""Why a vault is at fault."""
NOT_LISTED = "NOT_LISTED"
"""Not a fault of the vault: an operator's list of allowed vaults leaves it out."""
MOST_DETAIL = 1_000
"""Characters of a detail that are kept: what answers in the place of a store may send a whole page."""


ListedPage: TypeAlias = "Sequence[ListedObject] | RecordBatch"
"""Listed objects, as rows or as columns."""


class VaultFault(SextonError):
    """A vault's identity is not proved, or it is not reachable. Nothing in it may be claimed, deleted or called absent.

    ``reason`` is NOT_LISTED or one of ``FAULTS``.
    """

    def __init__(self, vault: str, reason: str, detail: str) -> None:
        self.vault, self.reason, self.detail = vault, reason, detail[:MOST_DETAIL]
        super().__init__(f"vault {vault}: {reason}: {self.detail}")


class Throttled(VaultFault):
    """The store throttles (SlowDown, 503); nothing is wrong. ``Vault.delete`` reports it per key instead.

    ``retry_after``: seconds that the store asked to wait, None where it named none.
    """

    def __init__(self, vault: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(vault, "UNREACHABLE", detail)
        self.retry_after = retry_after


class UnknownVault(NotFound):
    """No vault of that name is registered for the instance."""


class Vault(Protocol):
    """One place objects live in. Keys are relative to the vault's prefix. Every method may raise ``VaultFault``."""

    spec: VaultSpec

    def read_marker(self) -> Marker | None:
        """Return the marker, None where the bucket or directory exists and has no marker."""
        ...

    def write_marker(self, marker: Marker) -> None:
        """Write the marker unless one exists (then ``VaultFault`` FOREIGN_MARKER)."""
        ...

    def replace_marker(self, marker: Marker) -> None:
        """Overwrite the marker; only for a vault that was proved a moment ago."""
        ...

    def remove_marker(self) -> None:
        """Remove the marker of a vault that is removed; a missing one counts as removed."""
        ...

    def list(self, prefix: str) -> Iterator[Sequence[ListedObject]]:
        """Yield pages of at most 1,000 objects under a non-empty prefix, no key twice; complete, or ``VaultFault``.

        Keys come in byte order, but in path order from a store that has a tree (SeaweedFS lists ``a/x`` before
        ``a-x``): a caller that merges two listings checks their order.

        Raises:
            BadInput: the prefix is empty, ambiguous or Sexton's own.
        """
        ...

    def parts(self, count: int) -> Sequence[VaultPart]:
        """Return about ``count`` parts that together are the whole vault, cut at keys or along folders.

        A few requests for each.

        An object that is written later may be in no part: a caller that needs all objects looks up the missing ones.
        """
        ...

    def reports(self) -> Sequence[VaultPart]:
        """Return the files of the newest inventory: parts that hold what the vault held then; none without one.

        A vault with one whose report is missing, incomplete or changed is at fault.
        """
        ...

    def list_part(self, part: VaultPart) -> "Iterator[ListedPage]":
        """Yield pages of the objects of one part, without Sexton's own files; complete, or ``VaultFault``.

        A file of an inventory has pages of columns, named as the fields of ``ListedObject``.

        Raises:
            ValueError: the part is a range of keys, and no probe showed that this store lists such ranges.
        """
        ...

    def stat(self, keys: Sequence[str]) -> Sequence[ListedObject]:
        """Return the objects of those keys that exist, as a listing shows them; used for conditional vaults.

        Raises:
            BadInput: a key is not acceptable.
        """
        ...

    def prepare_delete(self) -> None:
        """Ask the store what a delete needs to know first, so that the next delete sends its request at once."""
        ...

    def delete(self, keys: Sequence[str], etags: Sequence[str] = (), until: float | None = None) -> Sequence[KeyResult]:
        """Delete at most 1,000 keys; return one result per key, in the order of the keys.

        Args:
            keys: relative to the vault.
            etags: of the object that is meant, one per key. A conditional vault deletes no other object, and none
                whose ETag is unknown.
            until: no request begins after this instant (monotonic seconds), by default ``PAGE_SECONDS`` after the call;
                keys that are left then are THROTTLED.

        Raises:
            BadInput: a key is not acceptable; nothing was deleted.
        """
        ...

    def delete_unchanged(
        self, keys: Sequence[str], etags: Sequence[str], written: Sequence[str], until: float | None = None
    ) -> Sequence[KeyResult]:
        """Delete objects as ``delete`` does, if they are the ones that were seen; another one is CHANGED.

        Args:
            keys: relative to the vault.
            etags: of the objects as they were seen, one per key; empty: unknown.
            written: when they were last written, as ``ListedObject.written``; empty: the key is deleted as it is. An
                object store compares this in a request before the delete: the same content that is written between
                the two goes unnoticed, where both take some milliseconds.
            until: as in ``delete``.

        Raises:
            BadInput: a key is not acceptable; nothing was deleted.
        """
        ...

    def abort_uploads(self, *prefixes: str) -> int:
        """Abort unfinished multipart uploads under prefixes that were deleted; return how many were aborted.

        Neighbours are cheap together: few requests, often one, find the uploads under all of them.
        Return 0 also where the store has no such uploads, or does not let these credentials list or abort them: such
        uploads only cost space.
        """
        ...

    def uploads(self, before: str) -> Sequence[ListedObject]:
        """Return the unfinished multipart uploads that began up to ``before`` (as ``ListedObject.written``).

        ``etag`` is the upload's id. The result is empty where the store has no such uploads, or does not list them.
        """
        ...

    def versions_days(self) -> int | None:
        """Return after how many days the store itself removes versions that are no longer the newest.

        None: never, or the vault has no versions, or the store does not report its rules.
        """
        ...

    def write_own(self, name: str, data: bytes) -> None:
        """Write Sexton's own file ``_sexton/NAME`` durably; readers see all of it or none.

        Raises:
            BadInput: the name is not acceptable, or the marker's. The other three methods raise it too.
        """
        ...

    def read_own(self, name: str) -> bytes | None:
        """Return Sexton's own file, None where it does not exist."""
        ...

    def list_own(self, prefix: str) -> Iterator[Sequence[ListedObject]]:
        """Yield pages of Sexton's own files whose names (without ``_sexton/``) begin with a non-empty prefix."""
        ...

    def remove_own(self, names: Sequence[str]) -> None:
        """Remove Sexton's own files, never the marker; a missing file counts as removed."""
        ...

    def probe(self) -> Probe:
        """Try under ``_sexton/probe/`` how this store behaves, and clean up; the vault need not have a marker."""
        ...

    def undelete(self, prefix: str = "", keys: Sequence[str] = (), *, dry_run: bool = False) -> Iterator[Undeleted]:
        """Remove the delete markers above the newest version of some keys, or of all under a prefix; yield per page.

        Raises:
            BadInput: this vault keeps no versions, or the prefix is not acceptable.
        """
        ...

    def ancestor_markers(self) -> Sequence[Marker]:
        """Return the markers of vaults that contain this one, outermost first; called before a vault is added."""
        ...

    def descendant_marker(self) -> Marker | None:
        """Return the marker of a vault inside this one, None where the first 10,000 objects show none."""
        ...


class MarkerTurn(Protocol):
    """The turn of one worker to write a vault's marker: no other worker writes it meanwhile."""

    def knows(self, marker: Marker) -> bool:
        """Return whether our database knows the round and the claim that the marker names."""
        ...

    def with_last_claim(self, marker: Marker, round_: int) -> Marker:
        """Return the marker with the newest claim of a round."""
        ...

    def store_announced(self, round_: int) -> None:
        """Store that the marker names this round: our database keeps its row, and those of all later rounds."""
        ...


class MarkerRecords(Protocol):
    """The rounds and claims of our database, which the markers of vaults name."""

    def knows(self, instance: str, marker: Marker) -> bool:
        """Return whether our database knows the round and the claim that a marker names."""
        ...

    def writing(self, instance: str, vault: str) -> AbstractContextManager[MarkerTurn]:
        """Wait for the turn to write a vault's marker; ``Throttled``: another worker has had it for seconds."""
        ...


class Vaults(Protocol):
    """All vaults of the deployment, opened on demand and proved before use."""

    def get(self, instance: str, name: str) -> Vault:
        """Return the vault; its marker, its row and our deployment were compared at most 5 s ago.

        Raises:
            UnknownVault: no such vault is registered.
            VaultFault: the proof failed; every object in it is kept.
        """
        ...

    def announce(self, instance: str, name: str, round_: int) -> None:
        """Prove the vault and write the beginning round into its marker; raises as ``get`` does."""
        ...

    def name_claim(self, instance: str, name: str, claim: ClaimId) -> None:
        """Let the vault's marker name a claim, or a later one, before its first delete; raises as ``get`` does."""
        ...

    def confirm(self, instance: str, name: str) -> None:
        """Prove the vault now, whatever was proved before; raises as ``get`` does."""
        ...
