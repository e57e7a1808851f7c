"""The port of a vault, as the engine sees it, and the one error that keeps everything in it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from sexton.errors import SextonError
from sexton.storage.model import KeyResult, Listed, Marker, VaultSpec


class VaultFault(SextonError):
    """A vault cannot be proved to be ours, or cannot be reached. Nothing in it may be claimed, deleted or called absent.

    ``reason`` is one of UNREACHABLE, NO_BUCKET, NO_MARKER, FOREIGN_MARKER, DENIED, BAD_REPLY.
    """

    def __init__(self, vault: str, reason: str, detail: str) -> None:
        super().__init__(f"vault {vault}: {reason}: {detail}")
        self.vault = vault
        self.reason = reason
        self.detail = detail


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

    def list(self, prefix: str) -> Iterator[Sequence[Listed]]:
        """Yield pages of at most 1,000 objects under a non-empty prefix, in key order; complete, or ``VaultFault``."""
        ...

    def delete(self, keys: Sequence[str]) -> Sequence[KeyResult]:
        """Delete at most 1,000 keys; one result for each key, in the order given."""
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
