"""Look up single objects in their vaults."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from sexton.check.model import Finding
from sexton.kernel.errors import BadInput
from sexton.storage.model import ListedObject
from sexton.storage.policy import check_key
from sexton.storage.port import Vaults


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
