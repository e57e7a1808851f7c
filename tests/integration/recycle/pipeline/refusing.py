"""A store that refuses to delete some files, or finds that they have changed."""

from collections.abc import Sequence
from typing import Any

import pytest

from sexton.recycle.model import RoundReport
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.support.rig import Rig


def refusing(*names: str, outcome: KeyOutcome = KeyOutcome.FAILED) -> Any:
    """Return a replacement of ``LocalVault.delete`` that refuses these keys and deletes the others."""
    delete = LocalVault.delete

    def delete_others(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = (), *_: Any) -> list[KeyResult]:
        others = [key for key in keys if key not in names]
        deleted = {result.key: result for result in delete(vault, others, [""] * len(others))}
        refused = {key: KeyResult(key, outcome, "AccessDenied") for key in names}
        return [deleted.get(key) or refused[key] for key in keys]

    return delete_others


def refused_round(rig: Rig, *names: str, outcome: KeyOutcome = KeyOutcome.FAILED) -> RoundReport:
    """Run a round in which the store refuses to delete these files; return its report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalVault, "delete", refusing(*names, outcome=outcome))
        return rig.round()


def faulty_round(rig: Rig) -> None:
    """Run a round in which the store answers no delete."""

    def fail(_vault: LocalVault, _keys: Sequence[str], _etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        raise VaultFault("disk", "DENIED", "no longer allowed")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalVault, "delete", fail)
        rig.round()
