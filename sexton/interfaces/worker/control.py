"""The control worker: workflows, and all activities except those of the other roles; and the worker beside a node."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from temporalio.client import Client
from temporalio.worker import Worker

import activities
from config.settings import Settings
from sexton.database.engine import Database
from sexton.insight.progress import progress_lines
from sexton.runtime.engine import Engine
from sexton.runtime.stores import live_settings
from sexton.runtime.temporal import schedules
from sexton.runtime.temporal.observing import SdkMetrics, observe
from sexton.runtime.temporal.versions import deployment_config
from sexton.runtime.temporal.waiting import running_purges
from workflows import ids, options
from workflows.registry import ALL, sandbox

if TYPE_CHECKING:
    from sexton.replication.agent.sweeping import BackendSweeper

LOCAL_AT_ONCE = 4
SHUTDOWN = timedelta(seconds=20)
"""Longer than a page: deletions under way are finished and recorded before a worker ends."""


def slots(settings: Settings, number: int) -> dict[str, Any]:
    """Return the options of a worker of this build that runs so many activities at once, each on a thread."""
    return {
        "deployment_config": deployment_config(settings),
        # Local activities take no slot, but a thread: they must not wait for one behind deletions of hours.
        "activity_executor": ThreadPoolExecutor(number + LOCAL_AT_ONCE, thread_name_prefix="activity"),
        "max_concurrent_activities": number,
        "max_heartbeat_throttle_interval": timedelta(seconds=1),
        "graceful_shutdown_timeout": SHUTDOWN,
    }


async def build(
    client: Client, settings: Settings, db: Database, sdk: SdkMetrics | None = None
) -> AbstractAsyncContextManager[str]:
    """Return a control worker, which yields the address of its metrics; wired to this database and its vaults.

    It polls a task queue for each kind of work that must not occupy the slots of another: comparisons last for hours,
    waits for flushes for minutes.
    """
    deployment, live = settings.require_deployment(), live_settings(db, settings)
    policy = live.current.map(Settings.policy)
    engine = Engine(db, live.engine_settings())
    stores = engine.stores
    recycle = settings.recycle
    at_once = options.activities_at_once(recycle.recycle_concurrency, recycle.recycle_ranges_at_once)
    loop = asyncio.get_running_loop()

    def purges() -> set[str]:
        return set(asyncio.run_coroutine_threadsafe(running_purges(client, settings), loop).result())

    wal = activities.WalActivities(stores.wal.rounds, purges)
    check = activities.CheckActivities(engine.checker, engine.in_process_compare, deployment)
    control = Worker(
        client,
        task_queue=ids.control_queue(deployment),
        workflows=ALL,
        activities=activities.build(
            activities.RecycleActivities(
                engine.rounds,
                engine.recycler(engine.deleter),
                policy,
                heavy_objects=live.current.map(lambda s: s.spark.spark_threshold_objects),
                ranges_at_once=recycle.recycle_ranges_at_once,
            ),
            activities.TickActivities(
                stores.round_schedule,
                lambda: schedules.nudge(client, deployment),
                engine.check_schedule.due,
                stores.wal.schedule.any_due,
                lambda: stores.binlogs.schedule.due(),
                partial(progress_lines, db),
            ),
            check,
            activities.SparkActivities(ids.spark_queue(deployment), stores.workers.count_slots),
            wal,
            activities.BinlogActivities(stores.binlogs.live_rounds),
        ),
        workflow_runner=sandbox(),
        # Otherwise the worker that runs a workflow takes all of its activities: ranges would share one process.
        disable_eager_activity_execution=True,
        max_concurrent_activity_task_polls=1,
        **slots(settings, at_once),
    )
    compare = Worker(
        client,
        task_queue=ids.compare_queue(deployment),
        activities=[check.compare, check.look_again],
        **slots(settings, options.COMPARISONS_AT_ONCE),
    )
    topics = Worker(
        client,
        task_queue=ids.topic_queue(deployment),
        activities=[wal.prepare_purge, wal.purge_topic, wal.purge_topics],
        **slots(settings, settings.wal.auto_purge_parallelism),
    )
    flushes = Worker(
        client,
        task_queue=ids.flush_queue(deployment),
        activities=[wal.flush_regions],
        **slots(settings, options.FLUSHES_AT_ONCE),
    )
    workers = (control, compare, topics, flushes)
    return _running(workers, observe(settings, engine, client, workers, sdk))


@asynccontextmanager
async def _running(workers: Sequence[Worker], metrics: str) -> AsyncIterator[str]:
    """Run workers until the context ends; yield the address of their metrics."""
    async with AsyncExitStack() as running:
        for worker in workers:
            await running.enter_async_context(worker)
        yield metrics


def build_backend(client: Client, settings: Settings, backend: str, sweeper: "BackendSweeper") -> Worker:
    """Return a worker beside one storage node; it opens none of Sexton's databases."""
    return Worker(
        client,
        task_queue=ids.backend_queue(settings.require_deployment(), backend),
        activities=[activities.BackendActivities(sweeper).sweep_cuts],
        **slots(settings, 1),
    )
