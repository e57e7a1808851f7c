"""Three worker processes whose files differ use the settings of the database from the next round on."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from sqlalchemy import select

from sexton import contract
from sexton.contract import NewMark
from sexton.database import schema
from sexton.database.engine import Database
from tests.e2e.conftest import Run
from tests.servers.forked import Forked
from tests.support.rig import put

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
            process.start(lambda log=process.log: "is polling" in log.read_text(), PATIENCE_SECONDS)
            stack.callback(process.stop, 30)
        yield


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def mark_due(shop: Database, root: Path, name: str) -> None:
    """Mark an object, and let three hours pass."""
    put(root, f"data/{name}")
    with shop.write() as c:
        contract.mark(c, "shop", "dropped", [NewMark(id=name, vault="disk", keys=(f"data/{name}",), bytes=10)])
    schema.move_clock(shop, 10_801)


def test_three_workers_follow_the_database(online: Run, shop: Database, workers: None, tmp_path: Path) -> None:
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

    t = shop.t.plan
    with shop.read() as c:
        policies = [body["policy"] for body in c.execute(select(t.c.body)).scalars()]
    assert (by_files["deleted"], applied["deleted"], deleted) == (0, 1, [1] * ROUNDS)
    assert {p["retention_seconds"]["dropped"] for p in policies} == {10_800}
    assert {p["max_delete_objects"] for p in policies} == {7}
    found = {f["about"]: f for f in json.loads(online("doctor", "--json").stdout)["items"]}
    assert found["workers"]["detail"].count("(control") == 3
    assert all(f"{value} in " in found["worker settings"]["detail"] for value in (86_400, 100_000, 300_000))
    assert RETENTION not in found["worker settings"]["detail"]


def test_interval_of_the_database_changes_the_schedule(
    online: Run, shop: Database, workers: None, tmp_path: Path
) -> None:
    online("enable", "shop")
    online("settings", "set", RETENTION, "10800", "--yes")
    assert online("schedules", "apply").returncode == 0
    before = json.loads(online("schedules", "list", "--json").stdout)["items"]

    set_ = online("settings", "set", "recycle.recycle_interval_seconds", "10", "--instance", "shop")

    def every_seconds() -> float:
        [listed] = json.loads(online("schedules", "list", "--json").stdout)["items"]
        return float(listed["every_seconds"])

    assert (set_.returncode, before[0]["every_seconds"]) == (0, 60)
    until(lambda: every_seconds() == 2)
    rounds = len(json.loads(online("round", "list", "shop", "--json").stdout)["items"])
    until(lambda: len(json.loads(online("round", "list", "shop", "--json").stdout)["items"]) >= rounds + 2)
    online("settings", "unset", "recycle.recycle_interval_seconds", "--instance", "shop")
    until(lambda: every_seconds() == 60)
