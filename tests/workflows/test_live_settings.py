"""A running round respects what an operator sets in the database meanwhile, without a restart of its worker."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from config import live
from sexton.kernel.crash_points import installed
from sexton.operators.settings.store import SettingStore
from tests.workflows.conftest import Served, fill

RETENTION = "recycle.dropped_partition_retention_seconds"


async def test_raised_retention_protects_within_a_round(
    served: Served, shop: str, tmp_path: Path, small_ranges: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, 300)
    store, clock = SettingStore(rig.db), SimpleNamespace(monotonic=lambda: now)
    now = 1_000.0
    monkeypatch.setattr(live, "time", clock)

    def raise_once(point: str) -> None:
        nonlocal now
        if point == "files.deleted" and not store.all():
            store.put(RETENTION, "864000", shop)
            now += live.MAX_AGE_SECONDS

    with installed(raise_once):
        report = await served.round(shop)
    kept = sum(1 for _ in (root / "dropped").iterdir())
    store.remove(RETENTION, shop)
    now += live.MAX_AGE_SECONDS
    next_report = await served.round(shop)

    assert (report.state, report.deleted, kept) == ("SUCCEEDED", 100, 200)
    assert next_report.deleted == 200
