"""Two ranges of one round that meet the same mark: what one of them drops, the other has claimed.

Shards of one plan never overlap. After a rolling upgrade they do: see test_older_ledger.py.
"""

import threading
from pathlib import Path

import pytest

from sexton.kernel import crash_points
from sexton.storage.port import VaultFault
from tests.integration.recycle.pipeline.attempts import DUE_SECONDS, range_order
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import Rig, listing


def test_a_range_drops_no_files_that_another_has_claimed(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.drop(root, "a.dat", "m", later=DUE_SECONDS)
    order = range_order(rig)
    overlapping = order.model_copy(update={"number": 1, "shard": 1})
    resolved, claimed = threading.Event(), threading.Event()
    real = rig.vaults.get

    def get(instance: str, name: str, *more: object) -> object:
        if threading.current_thread() is other and claimed.is_set():
            raise VaultFault(name, "UNREACHABLE", "for a moment, on this worker")
        return real(instance, name, *more)

    monkeypatch.setattr(rig.vaults, "get", get)

    def visit(point: str) -> None:
        if threading.current_thread() is other and point == "resolve.stored":
            resolved.set()
            assert claimed.wait(PATIENCE_SECONDS)
        elif threading.current_thread() is not other and point == "claim.committed" and not claimed.is_set():
            claimed.set()
            other.join(PATIENCE_SECONDS)

    other = threading.Thread(target=lambda: rig.recycler.recycle(overlapping, 1, lambda: None))
    with crash_points.installed(visit):
        other.start()
        assert resolved.wait(PATIENCE_SECONDS)
        rig.recycler.recycle(order, 1, lambda: None)
    other.join(PATIENCE_SECONDS)

    assert rig.row("dropped", "m") is not None or listing(root) == {}, "the record is removed, the file stays"
