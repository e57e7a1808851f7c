"""A worker exports Sexton's figures and those of Temporal's SDK, divided as it does, and is ready while it polls."""

import asyncio
import json
import re
import urllib.error
import urllib.request
from functools import partial
from types import SimpleNamespace

import pytest
from temporalio.client import Client
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from config.sections import MetricsSection, TemporalSection
from config.settings import Settings
from sexton.insight.metrics.collector import PoolCollector
from sexton.insight.metrics.temporal_sdk import COUNTER, GAUGE, HISTOGRAM, MOST_SERIES, SdkCollector
from sexton.interfaces.worker import control
from sexton.runtime.embedded.ports import free_port
from sexton.runtime.temporal.client import connect
from sexton.runtime.temporal.observing import SdkMetrics
from tests.servers.postgres import new_database
from tests.servers.temporal import DevServer
from tests.support.eventually import PATIENCE_SECONDS, eventually_async
from tests.support.rig import DEPLOYMENT, Rig
from tests.support.scrape import Scraped, scrape
from workflows import ids


class Update:
    """An update as the SDK reports it."""

    def __init__(self, name: str, kind: int, value: float, unit: str | None = None, **attributes: object) -> None:
        self.metric = SimpleNamespace(name=name, description=None, unit=unit, kind=kind)
        self.value = value
        self.attributes = {"service_name": "x", **attributes}


def collected(*updates: Update) -> Scraped:
    pending = [list(updates)]
    return scrape(SdkCollector(lambda: pending.pop() if pending else []))


def read(port: int, path: str = "/metrics") -> tuple[int, str]:
    """Return the status and the text of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE_SECONDS) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


def bounds(text: str) -> dict[str, set[float]]:
    """Return the upper bounds of each histogram."""
    found: dict[str, set[float]] = {}
    for name, bound in re.findall(r'(?m)^(\w+)_bucket\{.*?le="([^"]+)"', text):
        found.setdefault(name, set()).add(float(bound))
    return found


def test_counters_add_up_gauges_replace_histograms_count() -> None:
    latency = "temporal_workflow_task_schedule_to_start_latency"
    found = collected(
        *(Update("temporal_request", COUNTER, n, operation="Poll") for n in (1, 2)),
        *(Update("temporal_num_pollers", GAUGE, n, eager=False) for n in (5, 3)),
        *(Update(latency, HISTOGRAM, n, "s", task_queue="q") for n in (0.05, 0.1, 7.0, 5000.0)),
    )

    assert found("temporal_request_total", operation="Poll") == 3
    assert found("temporal_num_pollers", eager="false") == 3
    buckets = {le: found(f"{latency}_seconds_bucket", task_queue="q", le=le) for le in ("0.1", "0.5", "10.0", "+Inf")}
    assert buckets == {"0.1": 2, "0.5": 2, "10.0": 3, "+Inf": 4}
    assert found(f"{latency}_seconds_count", task_queue="q") == 4
    assert found(f"{latency}_seconds_sum", task_queue="q") == pytest.approx(5007.15)
    assert found.values("service_name") == set()


def test_the_number_of_series_is_bounded() -> None:
    found = collected(*(Update("temporal_request", COUNTER, 1, operation=str(n)) for n in range(MOST_SERIES + 100)))

    assert len(found.samples) == MOST_SERIES


async def test_a_worker_that_polls_is_ready_and_exports_its_metrics(temporal_server: DevServer) -> None:
    rig, port, other = Rig(new_database()).instance(), free_port(), free_port()
    settings = Settings(
        deployment=DEPLOYMENT,
        database_url=rig.url,
        metrics=MetricsSection(listen=f"127.0.0.1:{port}"),
        temporal=TemporalSection(address=temporal_server.address),
    )
    sdk = SdkMetrics()
    theirs = PrometheusConfig(
        bind_address=f"127.0.0.1:{other}", counters_total_suffix=True, unit_suffix=True, durations_as_seconds=True
    )
    runtime = Runtime(telemetry=TelemetryConfig(metrics=theirs))
    await Client.connect(temporal_server.address, runtime=runtime)

    async def answers(code: int) -> bool:
        return (await asyncio.to_thread(read, port, "/readyz"))[0] == code

    async def complete() -> str:
        _, text = await asyncio.to_thread(read, port)
        return text if "ActivityWorker" in text and "/compare" in text else ""

    worker = await control.build(await connect(settings, sdk.runtime), settings, rig.db, sdk)
    before = await asyncio.to_thread(read, port, "/readyz")
    async with worker:
        await eventually_async("the worker is ready", partial(answers, 200))
        live = await asyncio.to_thread(read, port, "/livez")
        text = await eventually_async("the workers poll", complete)
    await eventually_async("the worker is not ready any more", partial(answers, 503))
    after = await asyncio.to_thread(read, port, "/readyz")
    rig.db.close()

    assert (before[0], live[0]) == (503, 200)
    assert [json.loads(body)["failed"] for _, body in (before, after)] == [["temporal"]] * 2
    found, expected = Scraped(text), bounds(read(other)[1])
    assert found("sexton_up", deployment=DEPLOYMENT) == 1
    assert {"process_resident_memory_bytes", "sexton_build_info"} <= found.names()
    assert {labels for _, labels in found.samples if ("deployment", DEPLOYMENT) not in labels} == set()
    assert found("sexton_instance_enabled", deployment=DEPLOYMENT) == 1  # of all instances together, by default
    assert found("recycler_instance_running_counter", deployment=DEPLOYMENT) == 0
    slots = {"namespace": "default", "task_queue": ids.control_queue(DEPLOYMENT), "worker_type": "ActivityWorker"}
    free = found("temporal_worker_task_slots_available", deployment=DEPLOYMENT, **slots)
    assert free is not None
    assert free > 0
    shown = {"temporal_worker_task_slots_used", "temporal_num_pollers", "temporal_request_latency_seconds_bucket"}
    assert {"temporal_request_total", *shown} <= found.names()
    assert expected.items() <= bounds(text).items()
    assert "temporal_request_latency_seconds" in expected


def test_pool_connections_are_exported(rig: Rig) -> None:
    pool = PoolCollector(rig.db.engine)
    with rig.db.read():
        during = scrape(pool)
    after = scrape(pool)

    assert [s("sexton_database_connections", state="used") for s in (during, after)] == [1, 0]
    assert (after("sexton_database_connections", state="idle") or 0) >= 1
    assert (after("sexton_database_connections_max") or 0) >= 15
