"""Look up single objects in their vaults, and the parts in which a check lists a vault."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from sexton.check.model import Finding
from sexton.check.policy import inventory_at, inventory_fault
from sexton.kernel.errors import BadInput
from sexton.storage.model import ListedObject, VaultPart
from sexton.storage.policy import check_key
from sexton.storage.port import BAD_REPLY, Vault, VaultFault, Vaults


def parts_to_check(vault: Vault, count: int, cutoff: int) -> Sequence[VaultPart]:
    """Return about ``count`` parts in which a check lists a vault, or the files of its newest inventory.

    Raises:
        VaultFault: there is no such inventory, or it is too old at the ``cutoff``, ms since 1970.
    """
    files = vault.reports()
    if fault := inventory_fault(inventory_at(files), cutoff):
        raise VaultFault(vault.spec.name, BAD_REPLY, fault)
    return files or vault.parts(count)


def keys_by_vault(findings: Iterable[Finding]) -> dict[str, list[str]]:
    """Return vault → the keys of findings, each once."""
    keys: dict[str, dict[str, None]] = defaultdict(dict)
    for finding in findings:
        keys[finding.vault][finding.key] = None
    return {vault: list(of_vault) for vault, of_vault in keys.items()}


def existing(
    vaults: Vaults, instance: str, keys: Mapping[str, Iterable[str]], heartbeat: Callable[[], None] = lambda: None
) -> dict[tuple[str, str], ListedObject]:
    """Return the objects that exist now, by vault and key. Each vault's identity is verified before and after.

    A key that no store accepts as it is written (``//``, ``..``) is not looked up, and counts as not existing.

    Args:
        vaults: the deployment's vaults.
        instance: whose vaults they are.
        keys: vault → keys to look up.
        heartbeat: called before each vault.

    Raises:
        VaultFault: the identity of a vault cannot be verified, or it does not answer.
    """
    objects: dict[tuple[str, str], ListedObject] = {}
    for vault, vault_keys in keys.items():
        heartbeat()
        for listed in vaults.get(instance, vault).stat(sorted(filter(_is_acceptable, vault_keys))):
            objects[vault, listed.key] = listed
        vaults.confirm(instance, vault)
    return objects


def existing_below(
    vaults: Vaults, instance: str, prefixes: Mapping[str, Iterable[str]], heartbeat: Callable[[], None]
) -> dict[tuple[str, str], ListedObject]:
    """Return an object below each of these prefixes, by vault and prefix, where there is one.

    A prefix that no store accepts as it is written is not listed, and has no object. Raises as ``existing``.
    """
    objects: dict[tuple[str, str], ListedObject] = {}
    for vault, vault_prefixes in prefixes.items():
        for prefix in filter(_is_acceptable, vault_prefixes):
            heartbeat()
            pages = vaults.get(instance, vault).list(prefix)
            if first := next((page[0] for page in pages if page), None):
                objects[vault, prefix] = first
        vaults.confirm(instance, vault)
    return objects


def _is_acceptable(key: str) -> bool:
    try:
        check_key(key)
    except BadInput:
        return False
    return True
