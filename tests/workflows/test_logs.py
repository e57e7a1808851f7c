"""A round logs its begin, each range and its end, with no key of an object; its spans reach a collector."""

import json
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from config.settings import Settings
from sexton.interfaces.worker import control
from sexton.kernel import logs
from sexton.runtime.temporal import tracing
from sexton.runtime.temporal.client import connect
from tests.servers.otlp import Collector, collecting
from tests.servers.temporal import DevServer
from tests.support.rig import DEPLOYMENT, Rig
from tests.workflows.conftest import Served, changed


class Lines(logging.Handler):
    """Keeps what is logged as JSON."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logs.formatter("json", deployment=DEPLOYMENT, role="control"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    def events(self, begin: str) -> list[dict[str, object]]:
        """Return the records whose message begins with a text."""
        return [event for line in self.lines if (event := json.loads(line))["event"].startswith(begin)]


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)


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
    """A worker and a client, connected as real ones are, with the setting `telemetry.otlp_endpoint`."""
    endpoint = {"otlp_endpoint": f"{collector.url}/"}
    at = changed(settings, temporal={"address": temporal_server.address}, telemetry=endpoint)
    client = await connect(at)
    rig.policy = settings.policy()
    async with await control.build(client, settings, rig.db):
        yield Served(rig, client)


async def test_lines_and_spans_of_a_round_name_it(
    served: Served, shop: str, tmp_path: Path, lines: Lines, collector: Collector
) -> None:
    served.filled(shop, tmp_path, 5)

    report = await served.round(shop)
    tracing.flush()

    number = report.round
    [begin] = lines.events(f"round {number} of {shop} begins")
    [range_line] = lines.events(f"{shop}, round {number}: dropped, range 0")
    [end] = lines.events(f"round {number} of {shop} ends: SUCCEEDED; 5 marks claimed, 5 objects deleted, 0 failed")
    assert begin["workflow_id"] == end["workflow_id"] == f"{DEPLOYMENT}/recycle/{shop}"
    named = (range_line["instance"], range_line["round"], range_line["kind"], range_line["range"])
    assert named == (shop, number, "dropped", 0)
    assert (end["instance"], end["round"], end["deployment"], end["role"]) == (shop, number, DEPLOYMENT, "control")
    assert begin["run_id"]
    assert not any(".dat" in line for line in lines.lines)

    spans = {span.name: span for span in collector.spans}
    start = spans["StartWorkflow:recycle-instance"]
    run, range_ = spans["RunWorkflow:recycle-instance"], spans["RunActivity:recycle_range"]
    assert {"RunActivity:open_round", "RunActivity:make_plan", "RunActivity:close_round"} <= spans.keys()
    assert start.trace == run.trace == range_.trace
    assert run.parent == start.id
    assert spans["StartActivity:recycle_range"].id == range_.parent
    assert (range_.attributes["sexton.instance"], range_.attributes["sexton.round"]) == (shop, number)
    assert start.attributes["sexton.instance"] == run.attributes["sexton.instance"] == shop
    assert range_.resource["sexton.deployment"] == DEPLOYMENT
    assert collector.paths == {"/v1/traces"}


async def test_pause_and_cancel_log_no_traceback(
    served: Served, shop: str, tmp_path: Path, lines: Lines, small_ranges: None
) -> None:
    served.filled(shop, tmp_path, 300)

    async with served.held(shop) as (handle, door):
        await handle.signal("pause")
        door.open()
        await served.waiting_reason(shop)
        await handle.signal("cancel")
        await handle.result()

    [paused] = lines.events("paused by an operator")
    assert paused["workflow_id"] == f"{DEPLOYMENT}/recycle/{shop}"
    assert lines.events("round ")[-1]["event"].startswith(f"round {(await handle.result()).round} of {shop} ends")
    assert not any("Traceback" in line for line in lines.lines)
