"""A look at single objects: whether each is there this moment."""

from collections.abc import Callable, Iterable, Mapping

from sexton.kernel.errors import BadInput
from sexton.storage.model import Listed
from sexton.storage.policy import check_key
from sexton.storage.port import Vaults


def there(
    vaults: Vaults, instance: str, keys: Mapping[str, Iterable[str]], heartbeat: Callable[[], None] = lambda: None
) -> dict[tuple[str, str], Listed]:
    """Return what is there, by vault and key; vaults are proved before and after.

    A key that no store takes as it is written (``//``, ``..``) is not asked for, and so not there.

    Raises:
        VaultFault: a vault is not provably ours, or does not answer.
    """
    found: dict[tuple[str, str], Listed] = {}
    for vault, wanted in keys.items():
        heartbeat()
        for listed in vaults.get(instance, vault).stat(sorted(filter(_acceptable, wanted))):
            found[vault, listed.key] = listed
        vaults.confirm(instance, vault)
    return found


def _acceptable(key: str) -> bool:
    try:
        check_key(key)
    except BadInput:
        return False
    return True
