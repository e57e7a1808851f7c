"""A running round respects what an operator sets in the database meanwhile, without a restart of its worker."""

import time
from pathlib import Path

import pytest

from config.live import MAX_AGE_SECONDS
from sexton.kernel.crash_points import installed
from sexton.operators.settings.store import SettingStore
from tests.workflows.conftest import Served, fill

RETENTION = "recycle.dropped_partition_retention_seconds"


@pytest.mark.slow
async def test_raised_retention_protects_within_a_round(
    served: Served, shop: str, tmp_path: Path, small_ranges: None
) -> None:
    rig = served.rig.instance(shop)
    root = rig.local(tmp_path / "v", instance=shop)
    fill(rig, root, shop, 300)
    store = SettingStore(rig.db)

    def raise_once(point: str) -> None:
        if point == "files.deleted" and not store.all():
            store.put(RETENTION, "864000", shop)
            time.sleep(MAX_AGE_SECONDS + 0.5)

    with installed(raise_once):
        report = await served.round(shop)
    kept = sum(1 for _ in (root / "dropped").iterdir())
    store.remove(RETENTION, shop)
    time.sleep(MAX_AGE_SECONDS + 0.5)
    next_report = await served.round(shop)

    assert (report.state, report.deleted, kept) == ("SUCCEEDED", 100, 200)
    assert next_report.deleted == 200
