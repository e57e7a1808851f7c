"""An instance with a record of every kind in three vaults is dropped, and its worker is killed again and again."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.owners.catalog.shop import Shop
from tests.integration.owners.catalog.test_dropped_instance import RETAINED, fill, left, records

WORKER = """
import itertools, os, signal, sys
from contextlib import suppress
from sexton.kernel.crash_points import installed
from sexton.marks.model import InstanceMode
from sexton.recycle.errors import PlanRefused
from sexton.marks.lease_port import LeaseBusy
from tests.integration.owners.catalog.shop import Shop
url, visits = sys.argv[1], int(sys.argv[2])

def live(_, seen=itertools.count(1)):
    if next(seen) == visits:
        os.kill(os.getpid(), signal.SIGKILL)

shop = Shop(url)
hook = installed(live)
hook.__enter__()
while shop.registry.instance("shop").mode != InstanceMode.DELETED or shop.refs():
    with shop.db.read() as c:
        plans = [plan.id for plan in shop.rounds.plans.approvals.waiting(c)]
    with suppress(LeaseBusy, PlanRefused):
        shop.round(plan=plans[0] if plans else None)
    shop.later(1_300)  # past the lease of a worker that was killed, and in the end past the upload grace
"""
"""A worker that kills itself at its n-th visit of a crash point; 0: never."""
LIVES = (3, 8, 13, 21, 40, 55, 70, 90, 34, 5)
"""The visit at which each of the first workers dies."""


@pytest.mark.slow
def test_a_dropped_instance_is_deleted_though_workers_are_killed(database_url: str, tmp_path: Path) -> None:
    shop = Shop(database_url).register()
    for name in ("disk", "two", "three"):
        shop.local(tmp_path / name, name)
    fill(shop, ["disk", "two", "three"])
    for n in range(600):
        shop.put(("disk", "two", "three")[n % 3], f"data/unknown/{n}")
    shop.put("two", "notes/of-the-operators.txt")
    count, kept = records(shop), {"notes/of-the-operators.txt"}
    shop.catalog.drop_instance()
    shop.later(RETAINED)

    ends, records_too_early = list[int](), False
    for visits in (*LIVES, 0):
        ends.append(subprocess.run([sys.executable, "-c", WORKER, database_url, str(visits)], check=False).returncode)
        records_too_early |= records(shop) < count and left(shop) != kept

    print(ends)
    assert ends[0] == -signal.SIGKILL
    assert ends[-1] == 0
    assert not records_too_early
    assert (left(shop), records(shop), shop.refs()) == (kept, 0, set())
    shop.close()
