"""The places the audit is kept in: each vault's own ``_sexton/audit/``, or one place elsewhere for all."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from sexton.recycle.audit import naming
from sexton.storage.model import VaultSpec
from sexton.storage.port import Vault, Vaults
from sexton.storage.vaults import open_vault


class Places:
    """Opens them. A vault is proved before use; the place elsewhere has no marker, because nothing else is in it."""

    def __init__(
        self,
        vaults: Vaults,
        registered: Callable[[str], Sequence[VaultSpec]],
        *,
        audit_url: str = "",
        deployment: str = "",
        endpoint_url: str = "",
    ) -> None:
        """Nothing is opened yet.

        Args:
            vaults: the deployment's vaults.
            registered: returns the vaults of an instance (``Registry.vaults``).
            audit_url: see ``policy.place``; empty: each vault keeps its own audit.
            deployment: our deployment id.
            endpoint_url: the settings' S3 endpoint; empty for AWS.

        Raises:
            BadInput: ``audit_url`` names no place.
        """
        self._vaults, self._registered = vaults, registered
        spec = naming.place(audit_url, deployment)
        self._elsewhere = None if spec is None else open_vault(spec, endpoint_url=endpoint_url)

    def to_write(self, instance: str, vault: str) -> Vault:
        """Return where rows about objects of a vault go.

        Raises:
            UnknownVault: no such vault is registered.
            VaultFault: it is not provably ours.
        """
        return self._elsewhere or self._vaults.get(instance, vault)

    def to_read(self, instance: str) -> Iterator[Callable[[], Vault]]:
        """Yield where an instance's audit may be; each opens its place, and raises as ``to_write`` does.

        The vaults too, where there is a place elsewhere: it may have been named only after they were written.
        """
        elsewhere = self._elsewhere
        if elsewhere is not None:
            yield lambda: elsewhere
        for spec in self._registered(instance):
            yield partial(self._vaults.get, instance, spec.name)
