"""Serve the metrics and the health of a Temporal worker, and record the metrics of Temporal's SDK for it."""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from temporalio.api.workflowservice.v1 import GetSystemInfoRequest
from temporalio.client import Client
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    MetricBuffer,
    MetricBufferDurationFormat,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.service import RPCError
from temporalio.worker import Worker

from config.settings import Settings
from sexton.database.engine import Database
from sexton.insight.health import Health, LoopWatch, database_check
from sexton.insight.metrics.collector import DeploymentRegistry, FigureCollector, PoolCollector
from sexton.insight.metrics.server import serve
from sexton.insight.metrics.temporal_sdk import SdkCollector
from sexton.kernel.errors import SextonError
from sexton.runtime.engine import Engine
from sexton.runtime.stores import live_settings

TRIES = 3
ANSWER = timedelta(seconds=2)
BUFFERED_UPDATES = 100_000
"""A busy worker makes some thousands in a second, after which they are fetched."""


def runtime(metrics: MetricBuffer | None = None) -> Runtime:
    """Return a runtime of Temporal's SDK, for a client, whose own lines are records of this process' log."""
    warnings = TelemetryFilter(core_level="WARN", other_level="ERROR")
    forwarded = LoggingConfig(filter=warnings, forwarding=LogForwardingConfig(logger=logging.getLogger("temporalio")))
    return Runtime(telemetry=TelemetryConfig(logging=forwarded, metrics=metrics))


class SdkMetrics:
    """A runtime of Temporal's SDK whose metrics are kept until they are fetched; a client must use it."""

    def __init__(self) -> None:
        self.buffer = MetricBuffer(BUFFERED_UPDATES, MetricBufferDurationFormat.SECONDS)
        self.runtime = runtime(self.buffer)


def observe(
    settings: Settings, engine: Engine, client: Client, workers: Sequence[Worker], sdk: SdkMetrics | None = None
) -> str:
    """Serve metrics and health of a control worker: the process whose running event loop runs these workers.

    Return as ``observe_process``. ``sdk``: has the metrics of the client and its workers; None: they are not exported.
    """
    in_force = live_settings(engine.stores.db, settings).current
    figures = engine.stores.figures(in_force.map(Settings.policy), in_force.map(Settings.intervals))
    collector = FigureCollector(
        partial(figures.read_alone, uuid.uuid4().hex),
        engine.deleter.in_flight,
        update=figures.update,
        stats=settings.metrics.enable_recycler_stats_metrics,
        per_instance=settings.metrics.per_instance,
    )
    return observe_process(settings, engine.stores.db, client, workers, sdk, collector)


async def reached(client: Client) -> dict[str, int]:
    """Return whether Temporal answers within two seconds, as a worker reports it; a busy machine is asked again."""
    for _ in range(TRIES):
        try:
            await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=ANSWER)
        except RPCError:
            await asyncio.sleep(1.0)
        else:
            return {"reaches_temporal": True}
    return {"reaches_temporal": False}


def observe_process(
    settings: Settings,
    db: Database,
    client: Client,
    workers: Sequence[Worker],
    sdk: SdkMetrics | None,
    figures: FigureCollector | None = None,
) -> str:
    """Serve the metrics of a process alone, and its health; ``figures``: those of the deployment too.

    Return the address at which it answers, HOST:PORT; empty: it serves nothing.
    """
    deployment = settings.require_deployment()
    collectors = [PoolCollector(db.engine), *([figures] if figures is not None else [])]
    registry = DeploymentRegistry(deployment, *collectors)
    if sdk is not None:  # also without a server: it empties the buffer, or the SDK would log that it is full
        registry.register(SdkCollector(sdk.buffer.retrieve_updates))
    loop = asyncio.get_running_loop()

    def polls_temporal() -> None:
        if not all(worker.is_running for worker in workers):
            raise SextonError("the worker does not poll: it starts or ends")
        call = client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=ANSWER)
        asyncio.run_coroutine_threadsafe(call, loop).result(ANSWER.total_seconds() + 1)

    live, ready = LoopWatch(loop).check, database_check(db, deployment)
    health = Health(live={"event_loop": live}, ready={"database": ready, "temporal": polls_temporal})
    server = serve(settings.metrics.listen, registry, health)
    return "" if server is None else f"{settings.metrics.listen.rpartition(':')[0]}:{server.server_port}"
