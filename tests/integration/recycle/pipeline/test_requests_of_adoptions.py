"""A batch that was closed and is adopted is open again: requests of a replaced adoption count."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.storage.local.vault import LocalVault
from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.port import VaultFault
from tests.integration.recycle.pipeline.attempts import (
    DUE_SECONDS,
    Delete,
    adopt_order,
    attempt,
    is_undelete_safe,
    replaced_worker,
    work_off,
)
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig


def claimed_by_a_closed_batch(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> AdoptOrder:
    """Claim a key in a round whose vault has a fault before the delete: its batch is closed, its mark stays claimed."""
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)

    def fail(_vault: LocalVault, _keys: Sequence[str], _etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        raise VaultFault("disk", "UNAUTHORIZED", "the credentials were wrong for a moment")

    with monkeypatch.context() as faulty:
        faulty.setattr(LocalVault, "delete", fail)
        rig.round()
    assert rig.row("dropped", "m").state == "CLAIMED"
    assert rig.count("batch", state="OPEN") == 0
    rig.later(61)
    return adopt_order(rig)


def test_undelete_waits_for_a_request_of_a_replaced_adoption(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = claimed_by_a_closed_batch(rig, rig.local(tmp_path / "v"), monkeypatch)
    with replaced_worker(rig, order, monkeypatch):
        assert rig.row("dropped", "m") is None
        assert not is_undelete_safe(rig, "a.dat")

    assert rig.count("batch", state="OPEN") == 0


def test_discard_waits_for_a_request_of_a_replaced_adoption(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = claimed_by_a_closed_batch(rig, rig.local(tmp_path / "v"), monkeypatch)
    rig.sql("UPDATE {}mark SET failures = 9 WHERE id = 'm'")
    real: Delete = LocalVault.delete
    sent, answering = threading.Event(), threading.Event()

    def hang_then_fail(vault: LocalVault, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        if not sent.is_set():
            sent.set()
            assert answering.wait(PATIENCE_SECONDS)
            return real(vault, keys, etags)
        return [KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="AccessDenied") for key in keys]

    monkeypatch.setattr(LocalVault, "delete", hang_then_fail)
    with attempt(rig, order, 1):
        assert sent.wait(PATIENCE_SECONDS)
        work_off(rig, order, 2)
        assert rig.row("dropped", "m").quarantined_reason == "DELETE_FAILED"
        with pytest.raises(BadInput, match="a request may still delete files"):
            QuarantineStore(rig.db).discard("shop", Ref("dropped", "m"), "its files must stay")
        answering.set()
