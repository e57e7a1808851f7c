"""A listing that is repeated because the store is busy counts its objects once."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sexton.check import model as check_model
from sexton.kernel.live import Live
from sexton.storage.local.vault import LocalVault
from sexton.storage.port import Throttled
from tests.support.rig import DAY, Rig, put


def test_a_repeated_listing_does_not_make_a_vault_large(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = rig.local(tmp_path / "v")
    for n in range(6):
        put(root, f"{n}.dat")
    settings = check_model.CheckSettings(grace_seconds=DAY).model_copy(update={"heavy_objects": 10})
    rig.checker._settings = Live.of(settings)
    real = LocalVault.list_part
    cut = 0

    def busy(vault: LocalVault, *arguments: Any) -> Iterator[Sequence[Any]]:
        nonlocal cut
        yield from real(vault, *arguments)
        if not cut:
            cut += 1
            raise Throttled("disk", "slow down", retry_after=0.01)

    monkeypatch.setattr(LocalVault, "list_part", busy)

    order = rig.checker.begin(check_model.CheckRequest(instance="shop", requested_by="test"), "a run").order
    assert order.most_objects == 10

    evidence = rig.direct.compare(order, rig.registry.vaults("shop"), lambda: None)  # 6 objects

    assert [listing.objects + listing.young for listing in evidence.listings] == [6]
