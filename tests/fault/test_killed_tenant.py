"""An instance with a record of every kind in three vaults is dropped, and its worker is killed again and again."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sexton.marks.model import InstanceMode
from tests.integration.owners.catalog.shop import Shop
from tests.integration.owners.catalog.test_dropped_instance import RETAINED, fill, left, records

WORKER = """
import sys
from contextlib import suppress
from sexton.marks.model import InstanceMode
from sexton.recycle.errors import PlanRefused
from sexton.marks.lease_port import LeaseBusy
from tests.integration.owners.catalog.shop import Shop
shop = Shop(sys.argv[1])
while shop.registry.instance("shop").mode != InstanceMode.DELETED or shop.refs():
    with shop.db.read() as c:
        plans = [plan.id for plan in shop.rounds.plans.approvals.waiting(c)]
    with suppress(LeaseBusy, PlanRefused):
        shop.round(plan=plans[0] if plans else None)
    shop.later(1_300)  # past the lease of a worker that was killed, and in the end past the upload grace
"""
MOST_KILLS = 60


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_dropped_instance_is_deleted_though_workers_are_killed(clean_url: str, tmp_path: Path) -> None:
    shop = Shop(clean_url).register()
    for name in ("disk", "two", "three"):
        shop.local(tmp_path / name, name)
    fill(shop, ["disk", "two", "three"])
    for n in range(600):
        shop.put(("disk", "two", "three")[n % 3], f"data/unknown/{n}")
    shop.put("two", "notes/of-the-operators.txt")
    count, kept = records(shop), {"notes/of-the-operators.txt"}
    shop.catalog.drop_instance()
    shop.later(RETAINED)

    kills, records_too_early = 0, False
    while shop.registry.instance("shop").mode != InstanceMode.DELETED or shop.refs():
        assert kills < MOST_KILLS
        worker = subprocess.Popen([sys.executable, "-c", WORKER, clean_url])
        try:
            worker.wait(random.uniform(0.6, 2.2) if kills < 12 else 60)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()
            kills += 1
        records_too_early |= records(shop) < count and left(shop) != kept
        time.sleep(0.1)

    print(f"killed {kills} times")
    assert kills >= 1  # a fast machine deletes everything in two seconds
    assert not records_too_early
    assert (left(shop), records(shop), shop.refs()) == (kept, 0, set())
    shop.close()
