"""The spans of a round reach a collector: from its start over the workflow to each activity."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from config.settings import Settings
from sexton.interfaces.worker import control
from sexton.runtime.temporal import tracing
from sexton.runtime.temporal.client import connect
from tests.servers.otlp import Collector, collecting
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig
from tests.workflows.conftest import Served, fill


@pytest.fixture
def collector() -> Iterator[Collector]:
    with collecting() as collector:
        yield collector
        tracing.flush()
        for provider in tracing._providers:
            provider.shutdown()
        tracing._providers.clear()


@pytest.fixture
async def served(
    rig: Rig, settings: Settings, temporal_server: DevServer, collector: Collector
) -> AsyncIterator[Served]:
    """A worker and a client with the setting `telemetry.otlp_endpoint`."""
    at = settings.model_copy(
        update={
            "temporal": settings.temporal.model_copy(update={"address": temporal_server.address}),
            "telemetry": settings.telemetry.model_copy(update={"otlp_endpoint": f"{collector.url}/"}),
        }
    )
    client = await connect(at)
    rig.policy = settings.policy()
    async with await control.build(client, settings, rig.db):
        yield Served(rig, client)


async def test_spans_of_a_round_reach_the_collector(
    served: Served, shop: str, tmp_path: Path, collector: Collector
) -> None:
    served.rig.instance(shop)
    fill(served.rig, served.rig.local(tmp_path / "v", instance=shop), shop, 3)

    report = await served.round(shop)
    tracing.flush()

    spans = {span.name: span for span in collector.spans}
    start = spans["StartWorkflow:recycle-instance"]
    run, range_ = spans["RunWorkflow:recycle-instance"], spans["RunActivity:recycle_range"]
    assert {"RunActivity:open_round", "RunActivity:make_plan", "RunActivity:close_round"} <= spans.keys()
    assert start.trace == run.trace == range_.trace
    assert run.parent == start.id
    assert spans["StartActivity:recycle_range"].id == range_.parent
    assert (range_.attributes["sexton.instance"], range_.attributes["sexton.round"]) == (shop, report.round)
    assert start.attributes["sexton.instance"] == run.attributes["sexton.instance"] == shop
    assert range_.resource["sexton.deployment"] == DEPLOYMENT
    assert collector.paths == {"/v1/traces"}
