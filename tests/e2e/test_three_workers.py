"""Three worker processes whose files differ use the settings of the database from the next round on."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select

from sexton.contract import NewMark
from tests.e2e.conftest import Run, findings, items
from tests.servers.forked import Forked
from tests.support.eventually import eventually
from tests.support.rig import Rig, put

pytestmark = pytest.mark.slow

RETENTION = "recycle.dropped_partition_retention_seconds"
PATIENCE_SECONDS = 60
ROUNDS = 6


@pytest.fixture
def workers(environment: dict[str, str], tmp_path: Path) -> Iterator[None]:
    """Three processes; by the settings of each one no mark of this test is due."""
    with ExitStack() as stack:
        for number in (1, 2, 3):
            own = {
                "SEXTON_RECYCLE__DROPPED_PARTITION_RETENTION_SECONDS": f"{number}000000",
                "SEXTON_CHECK__CHECK_GRACE_SECONDS": f"{number}00000",
            }
            process = Forked(f"worker{number}", "worker", [], tmp_path, environment | own)
            process.start(lambda log=process.log: "is polling" in log.read_text())
            stack.callback(process.stop)
        yield


def mark_due(shop: Rig, root: Path, name: str) -> None:
    """Mark an object, and let three hours pass."""
    put(root, f"data/{name}")
    shop.mark("dropped", NewMark(id=name, vault="disk", keys=(f"data/{name}",), bytes=10))
    shop.later(10_801)


def test_workers_and_the_schedule_follow_the_database(online: Run, shop: Rig, workers: None, tmp_path: Path) -> None:
    assert online("enable", "shop").returncode == 0
    by_files = json.loads(online("round", "run", "shop", "--json").stdout)
    assert online("settings", "set", RETENTION, "10800", "--yes").returncode == 0
    assert online("settings", "set", "recycle.max_delete_objects", "7").returncode == 0
    time.sleep(5.5)  # as long as workers use what they have read

    waiting = json.loads(online("plan", "shop", "--json").stdout)["plan"]["plan"]  # the retention was shortened
    applied = json.loads(online("apply", str(waiting), "--yes", "--json").stdout)
    deleted = []
    for number in range(ROUNDS):
        mark_due(shop, tmp_path / "v", f"n{number}")
        deleted.append(json.loads(online("round", "run", "shop", "--json").stdout)["deleted"])

    t = shop.db.t.plan
    with shop.db.read() as c:
        policies = [body["policy"] for body in c.execute(select(t.c.body)).scalars()]
    assert (by_files["deleted"], applied["deleted"], deleted) == (0, 1, [1] * ROUNDS)
    assert {p["retention_seconds"]["dropped"] for p in policies} == {10_800}
    assert {p["max_delete_objects"] for p in policies} == {7}
    found = findings(online)
    assert found["workers"]["detail"].count("(control") == 3
    assert all(f"{value} in " in found["worker settings"]["detail"] for value in (86_400, 100_000, 300_000))
    assert RETENTION not in found["worker settings"]["detail"]

    assert online("schedules", "apply").returncode == 0
    at_first = every_seconds(online)
    set_ = online("settings", "set", "recycle.recycle_interval_seconds", "10", "--instance", "shop")
    assert (set_.returncode, at_first) == (0, 53)
    eventually("the schedule follows", lambda: every_seconds(online) == 3)
    rounds = count_rounds(online)
    eventually("it starts more rounds", lambda: count_rounds(online) >= rounds + 2)
    online("settings", "unset", "recycle.recycle_interval_seconds", "--instance", "shop")
    eventually("the schedule follows", lambda: every_seconds(online) == 53)


def every_seconds(online: Run) -> float:
    """Return how often the schedule checks."""
    [listed] = items(online("schedules", "list", "--json"))
    return float(listed["every_seconds"])


def count_rounds(online: Run) -> int:
    """Return the number of rounds so far."""
    return len(items(online("round", "list", "shop", "--json")))
