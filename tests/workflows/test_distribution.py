"""The ranges of a round are distributed over the workers that poll; none of them takes all."""

import time
from collections import Counter
from pathlib import Path

import pytest
from temporalio.client import Client

from config.settings import Settings
from sexton.interfaces.worker import control
from sexton.kernel.crash_points import installed
from sexton.recycle.planning import policy as planning
from sexton.runtime.temporal.client import CONVERTER
from tests.servers.temporal import DevServer
from tests.support.rig import Rig
from tests.workflows.conftest import Served, fill

SHARDS = 16


def take_a_while(point: str) -> None:
    """Let each range last, so that the next ones begin beside it."""
    if point == "resolve.stored":
        time.sleep(0.3)


@pytest.mark.slow
async def test_two_workers_share_the_ranges_of_a_round(
    rig: Rig,
    settings: Settings,
    temporal_server: DevServer,
    shop: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "SHARD_OBJECTS", 1)
    rig.policy = settings.policy()
    rig.instance(shop)
    fill(rig, rig.local(tmp_path / "v", instance=shop), shop, SHARDS)
    one, other = [
        await Client.connect(temporal_server.address, data_converter=CONVERTER, identity=identity)
        for identity in ("one", "other")
    ]
    async with await control.build(one, settings, rig.db), await control.build(other, settings, rig.db):
        with installed(take_a_while):
            handle = await Served(rig, one).start(shop)
            report = await handle.result()
    events = (await handle.fetch_history()).events
    ranges = {
        e.event_id for e in events if e.activity_task_scheduled_event_attributes.activity_type.name == "recycle_range"
    }
    started = [e.activity_task_started_event_attributes for e in events]
    by_worker = Counter(s.identity for s in started if s.scheduled_event_id in ranges)

    print(dict(by_worker))
    assert report.deleted == SHARDS
    assert by_worker.keys() == {"one", "other"}
