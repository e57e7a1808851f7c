"""Open the locations of the log of deletions: ``_sexton/audit/`` of each vault, or one separate location for all."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sexton.kernel.trust import STRICT, Trust
from sexton.recycle.audit import naming
from sexton.storage.model import VaultSpec
from sexton.storage.port import Vault, Vaults
from sexton.storage.vaults import open_vault


class AuditLocations:
    """Opens the locations. A vault is proved before use; the separate location holds only the log and has no marker."""

    def __init__(
        self,
        vaults: Vaults,
        registered: Callable[[str], Sequence[VaultSpec]],
        *,
        audit_url: str = "",
        deployment: str = "",
        endpoint_url: str = "",
        trust: Trust = STRICT,
    ) -> None:
        """Create it without opening a location.

        Args:
            vaults: the deployment's vaults.
            registered: returns the vaults of an instance (``Registry.vaults``).
            audit_url: see ``naming.place``; empty: each vault holds the log of its own objects.
            deployment: our deployment id.
            endpoint_url: the settings' S3 endpoint; empty for AWS.
            trust: of connections to an S3 service.

        Raises:
            BadInput: ``audit_url`` names no location.
        """
        self._vaults, self._registered = vaults, registered
        spec = naming.separate_location(audit_url, deployment)
        self._separate = None if spec is None else open_vault(spec, endpoint_url=endpoint_url, trust=trust)

    def to_write(self, instance: str, vault: str) -> Vault:
        """Return where to write rows about objects of a vault.

        Raises:
            UnknownVault: no such vault is registered.
            VaultFault: the vault's identity is not proved.
        """
        return self._separate or self._vaults.get(instance, vault)

    def to_read(self, instance: str) -> Iterator[Callable[[], Vault]]:
        """Yield a function for each location that may hold rows of an instance; it opens it, raising as ``to_write``.

        With a separate location the vaults are read too: they may hold rows from the time before it was configured.
        """
        separate = self._separate
        if separate is not None:
            yield lambda: separate
        for spec in self._registered(instance):
            yield partial(self._vaults.get, instance, spec.name)
