"""A worker's metrics contain those of Temporal's SDK, named and divided as the SDK's own exporter does it."""

import asyncio
import re
import urllib.request
from pathlib import Path
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
from tests.support.eventually import eventually_async
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


def read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


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


async def test_a_worker_exports_what_the_sdk_would(tmp_path: Path, temporal_server: DevServer) -> None:
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

    async with await control.build(await connect(settings, sdk.runtime), settings, rig.db, sdk):

        async def complete() -> str:
            text = await asyncio.to_thread(read, port)
            return text if "ActivityWorker" in text and "/compare" in text else ""

        text = await eventually_async("the workers poll", complete)
    rig.db.close()

    found, expected = Scraped(text), bounds(read(other))
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
