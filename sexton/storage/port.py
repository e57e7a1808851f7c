"""The port of a vault, as the engine sees it, and the one error that keeps everything in it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sexton.kernel.errors import SextonError
from sexton.storage.model import KeyResult, Listed, Marker, Probe, Shard, Undeleted, VaultSpec

UNREACHABLE = "UNREACHABLE"
NOT_LISTED = "NOT_LISTED"
"""Not a fault of the vault: an operator's whitelist leaves it out for now."""


class VaultFault(SextonError):
    """A vault is not provably ours, or not reachable. Nothing in it may be claimed, deleted or called absent.

    ``reason`` is one of UNREACHABLE, NO_BUCKET, NO_MARKER, FOREIGN_MARKER, BEHIND, DENIED, BAD_REPLY, NOT_LISTED.
    """

    def __init__(self, vault: str, reason: str, detail: str) -> None:
        super().__init__(f"vault {vault}: {reason}: {detail}")
        self.vault = vault
        self.reason = reason
        self.detail = detail


class Throttled(VaultFault):
    """The store asks for patience (SlowDown, 503); nothing is known to be wrong. ``delete`` says it per key instead.

    ``retry_after``: seconds it asked for, where it named any.
    """

    def __init__(self, vault: str, detail: str, retry_after: float | None = None) -> None:
        super().__init__(vault, "UNREACHABLE", detail)
        self.retry_after = retry_after


class UnknownVault(SextonError):
    """No vault of that name is registered for the instance."""


class Vault(Protocol):
    """One place objects live in. Keys are relative to the vault's prefix. Every method may raise ``VaultFault``."""

    spec: VaultSpec

    def read_marker(self) -> Marker | None:
        """Return the marker, or None where the place exists and has none."""
        ...

    def write_marker(self, marker: Marker) -> None:
        """Write the marker unless one exists (then ``VaultFault`` FOREIGN_MARKER)."""
        ...

    def replace_marker(self, marker: Marker) -> None:
        """Write the marker over the one that is there; only for a vault that was proved a moment ago."""
        ...

    def list(self, prefix: str) -> Iterator[Sequence[Listed]]:
        """Yield pages of at most 1,000 objects under a non-empty prefix, no key twice; complete, or ``VaultFault``.

        Keys come in byte order, but in path order from a store that keeps a tree (SeaweedFS lists ``a/x`` before
        ``a-x``): whoever merges two listings checks the order it sees.

        Raises:
            BadInput: the prefix is empty, ambiguous or Sexton's own.
        """
        ...

    def shards(self, count: int) -> Sequence[Shard]:
        """Return about so many parts that together are the whole vault, cut along its folders; a few requests each.

        What is written after it was cut may lie in no part: whoever needs it all looks at what it misses once more.
        """
        ...

    def list_shard(self, shard: Shard) -> Iterator[Sequence[Listed]]:
        """Yield pages of the objects of one part, without Sexton's own; complete, or ``VaultFault``.

        Raises:
            ValueError: it is a range of keys, and this store was not seen to list in byte order from any key on.
        """
        ...

    def stat(self, keys: Sequence[str]) -> Sequence[Listed]:
        """Return those of the keys that exist, as a listing would show them; asked of conditional vaults.

        Raises:
            BadInput: a key is not acceptable.
        """
        ...

    def delete(self, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        """Delete at most 1,000 keys; one result for each key, in the order given.

        ``etags``: one for each key, of the object that is meant; a conditional vault deletes no other, and none
        whose ETag is not known.

        Raises:
            BadInput: a key is not acceptable; nothing was deleted.
            ValueError: more than 1,000 keys, or not one ETag for each.
        """
        ...

    def abort_uploads(self, prefix: str) -> int:
        """Abort unfinished multipart uploads under a prefix that was deleted; return how many were aborted.

        0 as well where the store has no such uploads, or does not let these credentials see or abort them: what is
        left then costs room, nothing more.
        """
        ...

    def uploads(self, before: str) -> Sequence[Listed]:
        """Return the unfinished multipart uploads of the vault begun up to then (as ``Listed.written``).

        ``etag`` is the upload's id. None where the store has no such uploads, or does not show them.
        """
        ...

    def versions_days(self) -> int | None:
        """Return after how many days the store itself removes versions that are no longer the newest.

        None: never, or the vault has no versions, or the store does not tell.
        """
        ...

    def write_own(self, name: str, data: bytes) -> None:
        """Write a file of Sexton's own, ``_sexton/NAME``, durably; readers see all of it or none.

        Raises:
            BadInput: the name is not acceptable, or the marker's. So do the other three.
        """
        ...

    def read_own(self, name: str) -> bytes | None:
        """Return a file of Sexton's own, None where there is none."""
        ...

    def list_own(self, prefix: str) -> Iterator[Sequence[Listed]]:
        """Yield pages of Sexton's own files whose names (without ``_sexton/``) begin with a non-empty prefix."""
        ...

    def remove_own(self, names: Sequence[str]) -> None:
        """Remove files of Sexton's own; never the marker. What is not there is removed."""
        ...

    def probe(self) -> Probe:
        """Try under ``_sexton/probe/`` what this store really does, and clean up; the vault may be without a marker."""
        ...

    def undelete(self, prefix: str = "", keys: Sequence[str] = (), *, dry_run: bool = False) -> Iterator[Undeleted]:
        """Remove the delete markers above the newest version of each key named, or under a prefix; yield per page.

        Raises:
            BadInput: this vault keeps no versions, or the prefix is not acceptable.
        """
        ...

    def ancestor_markers(self) -> Sequence[Marker]:
        """Return the markers of vaults that contain this one, outermost first; asked before a vault is added."""
        ...

    def descendant_marker(self) -> Marker | None:
        """Return the marker of a vault inside this one, if the first 10,000 objects show any."""
        ...


class Vaults(Protocol):
    """All vaults of the deployment, opened on demand and proved before use."""

    def get(self, instance: str, name: str) -> Vault:
        """Return the vault, its marker, row and our deployment compared no more than 5 s ago.

        Raises:
            UnknownVault: no such vault is registered.
            VaultFault: the proof failed; every object in it is kept.
        """
        ...

    def announce(self, instance: str, name: str, round_: int, run: str) -> None:
        """Prove the vault and write the round that begins into its marker; raises as ``get`` does."""
        ...

    def confirm(self, instance: str, name: str) -> None:
        """Prove the vault this moment, whatever was proved before; raises as ``get`` does."""
        ...
