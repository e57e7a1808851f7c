"""How many objects a check lists: a repeated listing counts them once, and the next check goes by the last one."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sexton.check import model as check_model
from sexton.kernel.errors import TooManyObjects
from sexton.kernel.live import Live
from sexton.storage.local.vault import LocalVault
from sexton.storage.port import Throttled
from tests.integration.check.conftest import Owned, file_keys
from tests.support.rig import DAY, Rig, put


def test_a_repeated_listing_does_not_make_a_vault_large(rig: Rig, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_last_listing_decides_whether_a_check_is_heavy(owned: Owned) -> None:
    owned.write_live(*file_keys(12))
    settings = check_model.CheckSettings(grace_seconds=DAY).model_copy(update={"heavy_objects": 10})
    owned.checker._settings = Live.of(settings)
    request = check_model.CheckRequest(instance="shop", requested_by="test")

    first = owned.checker.begin(request, "first")
    with pytest.raises(TooManyObjects):
        owned.direct.compare(first.order, owned.registry.vaults("shop"), lambda: None)
    every = first.order.model_copy(update={"most_objects": None})
    evidence = owned.checker.compare(owned.direct, every, lambda: None)
    owned.checker.conclude(check_model.ConcludeOrder(instance="shop", run=every.run, evidence=evidence))
    second = owned.checker.begin(request, "second")

    assert (first.heavy, first.order.most_objects) == (False, 10)
    assert (second.heavy, second.order.most_objects) == (True, None)
