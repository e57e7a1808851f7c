"""A store that refuses to delete some files."""

from collections.abc import Sequence
from typing import Any

import pytest

from sexton.recycle.model import RoundReport
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from tests.support.rig import Rig


def refusing(*names: str) -> Any:
    """Return a replacement of ``LocalVault.delete`` that refuses these keys and deletes the others."""
    delete = LocalVault.delete

    def delete_others(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = (), *_: Any) -> list[KeyResult]:
        others = [key for key in keys if key not in names]
        deleted = {result.key: result for result in delete(vault, others, [""] * len(others))}
        refused = {key: KeyResult(key, KeyOutcome.FAILED, "AccessDenied") for key in names}
        return [deleted.get(key) or refused[key] for key in keys]

    return delete_others


def refused_round(rig: Rig, *names: str) -> RoundReport:
    """Run a round in which the store refuses to delete these files; return its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing(*names))
        return rig.round()
