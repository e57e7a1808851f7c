"""The composition root: settings → clients → adapters → a Temporal worker.

``python -m worker`` runs a control worker: workflows and all activities except those below. ``--role spark`` runs a
worker for listings, comparisons and deletions on Spark, ``--role backend`` one beside a storage node, which deletes its
binlogs.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from temporalio.client import Client
from temporalio.worker import Worker

import activities
from config.settings import Settings, home, load, load_home_env
from sexton.database import schema
from sexton.database.engine import Database
from sexton.insight.metrics import server
from sexton.kernel.errors import SextonError
from sexton.kernel.memory import search_cycles_rarely
from sexton.kernel.printable import configure_logs
from sexton.replication.agent import serving
from sexton.runtime.engine import Engine
from sexton.runtime.spark.presence import reporting
from sexton.runtime.temporal import schedules
from sexton.runtime.temporal.activity_counter import ActivityCounter
from sexton.runtime.temporal.client import connect, run
from sexton.runtime.temporal.connection import connection
from workflows import ALL, ids, options, sandbox

if TYPE_CHECKING:
    from sexton.replication.agent.sweeping import BackendSweeper
    from sexton.runtime.spark.session import Sessions

SERVER_CHECK_SECONDS = 1.0
"""How often a Spark worker checks that its own server runs: a worker without one must not take work."""
SHUTDOWN = timedelta(seconds=20)
"""Longer than a page: deletions under way are finished and recorded before a worker ends."""


async def build(client: Client, settings: Settings, db: Database) -> AbstractAsyncContextManager[None]:
    """Return a control worker: workflows and their activities, wired to this database and its vaults.

    It polls a task queue for each kind of work that must not occupy the slots of another: comparisons last for hours,
    waits for flushes for minutes.
    """
    deployment, policy = settings.require_deployment(), settings.policy()
    engine = Engine(db, settings.engine_settings())
    stores = engine.stores
    at_once = options.activities_at_once(settings.recycle.recycle_concurrency)
    server.start(settings.metrics, stores.figures(policy, settings.intervals()), engine.deleter.in_flight)
    wal = activities.WalActivities(stores.wal.rounds)
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
                heavy_objects=settings.spark.spark_threshold_objects,
            ),
            activities.TickActivities(
                stores.round_schedule,
                lambda: schedules.nudge(client, deployment),
                engine.check_schedule.due,
                stores.wal.schedule.any_due,
                stores.binlogs.schedule.due,
            ),
            check,
            activities.SparkActivities(ids.spark_queue(deployment), stores.spark_workers.count_slots),
            wal,
            activities.BinlogActivities(stores.binlogs.rounds),
        ),
        workflow_runner=sandbox.runner(),
        # Otherwise the worker that runs a workflow takes all of its activities: ranges would share one process.
        disable_eager_activity_execution=True,
        max_concurrent_activity_task_polls=1,
        **_threads(at_once),
    )
    compare = Worker(
        client,
        task_queue=ids.compare_queue(deployment),
        activities=[check.compare, check.look_again],
        **_threads(options.COMPARISONS_AT_ONCE),
    )
    topics = Worker(
        client,
        task_queue=ids.topic_queue(deployment),
        activities=[wal.prepare_purge, wal.purge_topic],
        **_threads(settings.wal.auto_purge_parallelism),
    )
    flushes = Worker(
        client,
        task_queue=ids.flush_queue(deployment),
        activities=[wal.flush_regions],
        **_threads(options.FLUSHES_AT_ONCE),
    )
    return _running(control, compare, topics, flushes)


@asynccontextmanager
async def _running(*workers: Worker) -> AsyncIterator[None]:
    """Run workers until the context ends."""
    async with AsyncExitStack() as running:
        for worker in workers:
            await running.enter_async_context(worker)
        yield


def _threads(number: int) -> dict[str, Any]:
    """Return the options of a worker that runs so many activities at once, each on a thread."""
    return {
        "activity_executor": ThreadPoolExecutor(number, thread_name_prefix="activity"),
        "max_concurrent_activities": number,
        "max_heartbeat_throttle_interval": timedelta(seconds=1),
        "graceful_shutdown_timeout": SHUTDOWN,
    }


@asynccontextmanager
async def spark_worker(client: Client, settings: Settings, db: Database, sessions: "Sessions") -> AsyncIterator[Worker]:
    """Run a Spark worker, which compares, and deletes ranges, on Spark's executors; it reports how busy it is."""
    from sexton.runtime.spark.compare import scratch_of
    from sexton.runtime.spark.deletion import Work
    from sexton.runtime.spark.engine import AT_ONCE, SparkEngine
    from sexton.runtime.spark.locations import ConnectionTarget, without_password

    deployment, spark = settings.require_deployment(), settings.spark
    engine = Engine(db, settings.engine_settings())
    where = ConnectionTarget(
        deployment=deployment,
        database_url=without_password(settings.database_url),
        endpoint_url=settings.s3.endpoint_url,
        live_database_url=settings.live_database_url and without_password(settings.live_database_url),
        trust=settings.trust(),
    )
    work = Work(
        where=where,
        requests=spark.spark_task_requests,
        audit_url=settings.audit.audit_url,
        controls=settings.controls(),
    )
    scratch = scratch_of(spark.scratch, home(), local=sessions.local)
    heavy = SparkEngine(engine, sessions, work, connections=spark.spark_max_db_connections, scratch=scratch)
    counter = ActivityCounter()
    worker = Worker(
        client,
        task_queue=ids.spark_queue(deployment),
        activities=[
            activities.CheckActivities(engine.checker, heavy.compare, deployment).compare,
            activities.RecycleActivities(engine.rounds, heavy.recycler, settings.policy()).recycle_range,
        ],
        interceptors=[counter],
        **_threads(AT_ONCE),
    )
    async with worker, reporting(engine.stores.spark_workers, AT_ONCE, lambda: counter.running):
        yield worker


def build_backend(client: Client, settings: Settings, backend: str, sweeper: "BackendSweeper") -> Worker:
    """Return a worker beside one storage node; it opens none of Sexton's databases."""
    return Worker(
        client,
        task_queue=ids.backend_queue(settings.require_deployment(), backend),
        activities=[activities.BackendActivities(sweeper).sweep_cuts],
        **_threads(1),
    )


@contextmanager
def spark_sessions(settings: Settings) -> "Iterator[Sessions]":
    """Open the Spark sessions of this process; close them, and a server of its own, at the end."""
    from sexton.runtime.spark.session import Sessions

    broadcast_limit = {"spark.sql.autoBroadcastJoinThreshold": str(settings.spark.spark_broadcast_max_bytes)}
    sessions = Sessions(
        settings.spark.remote, broadcast_limit | settings.spark.conf, home(), settings.require_deployment()
    )
    try:
        yield sessions
    finally:
        sessions.close()


async def main(role: str = "control", backend: serving.ServedBackend | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. ``backend``: the storage node, for the role of that name."""
    configure_logs()
    logging.getLogger("botocore.credentials").setLevel(logging.WARNING)  # it logs a line for each client
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs a line for each request
    load_home_env()
    settings, stop = load(), asyncio.Event()
    sessions: Sessions | None = None
    worker: AbstractAsyncContextManager[object]
    if backend is None:
        db = Database.open(settings.database_url, live_url=settings.live_database_url)
        schema.check(db, settings.require_deployment())
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with AsyncExitStack() as resources:
        if backend is not None:
            sweeper = resources.enter_context(serving.open_sweeper(backend))
            worker = build_backend(await connect(settings), settings, backend.id, sweeper)
            await resources.enter_async_context(serving.catching_up(sweeper))
        elif role == "spark":
            client = await connect(settings)
            sessions = resources.enter_context(spark_sessions(settings))
            worker = spark_worker(client, settings, db, sessions)
        else:
            worker = await build(await connect(settings), settings, db)
        async with worker:
            search_cycles_rarely()
            logging.info(
                "%s worker of %s is polling %s", role, settings.deployment, connection(settings.temporal).address
            )
            while not stop.is_set():
                if sessions is not None:
                    sessions.check()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), SERVER_CHECK_SECONDS)


def parse_arguments(arguments: list[str]) -> tuple[str, serving.ServedBackend | None]:
    """Return the role and the storage node that the command line names; wrong usage ends the process."""
    parser = argparse.ArgumentParser(prog="python -m worker", description="Run a worker of this deployment.")
    roles = ("control", "spark", "backend")
    parser.add_argument("--role", choices=roles, default="control", help="the kind of worker (default: control)")
    serving.add_options(parser)
    parsed = parser.parse_args(arguments)
    return parsed.role, serving.parse_options(parser, parsed)


if __name__ == "__main__":
    try:
        role_and_backend = parse_arguments(sys.argv[1:])
    except SextonError as e:
        sys.exit(f"error: {e}")
    run(main(*role_and_backend))
