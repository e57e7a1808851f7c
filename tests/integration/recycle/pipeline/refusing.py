"""A store that refuses to delete some files."""

from collections.abc import Sequence
from typing import Any

from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult


def refusing(*names: str) -> Any:
    """Return a replacement of ``LocalVault.delete`` that refuses these keys and deletes the others."""
    delete = LocalVault.delete

    def delete_others(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = (), *_: Any) -> list[KeyResult]:
        others = [key for key in keys if key not in names]
        deleted = {result.key: result for result in delete(vault, others, [""] * len(others))}
        refused = {key: KeyResult(key, KeyOutcome.FAILED, "AccessDenied") for key in names}
        return [deleted.get(key) or refused[key] for key in keys]

    return delete_others
