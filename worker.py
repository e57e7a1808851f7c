"""The composition root: settings → clients → adapters → a Temporal worker.

``python -m worker`` runs one that does everything but Spark's work and the work on storage nodes; ``python -m worker
--role spark`` does the one, ``python -m worker --role backend`` the other, beside one storage node.
"""

import argparse
import asyncio
import logging
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.worker import Worker

import activities
from config.settings import Settings, home, load, load_home_env
from sexton.database import schema
from sexton.database.engine import Database
from sexton.insight.metrics import server
from sexton.insight.metrics.figures.store import FigureStore
from sexton.kernel.errors import SextonError
from sexton.replication.agent import serving as beside
from sexton.runtime.engine import Engine
from sexton.runtime.temporal import schedules, search_attributes
from sexton.runtime.temporal.client import connect, run, spark_queue
from workflows import ALL, ids, options, sandbox

if TYPE_CHECKING:
    from sexton.replication.agent.sweeping import BackendSweeper
    from sexton.runtime.spark.session import Sessions

LOOK_SECONDS = 1.0
"""How often a Spark worker looks whether its own server lives: a worker without one must not take work."""


async def build(client: Client, settings: Settings, db: Database) -> Worker:
    """Return a control worker: workflows and their activities, wired to this database and its vaults."""
    deployment, policy = settings.require_deployment(), settings.policy()
    engine, pages = Engine(db, settings.terms()), settings.wal.auto_purge_parallelism
    at_once = options.activities_at_once(settings.recycle.recycle_concurrency, pages)
    figures = FigureStore(db, engine.controls, policy, *settings.intervals())
    server.start(settings.metrics, figures, engine.sweeper.in_flight)
    knows = not await search_attributes.missing(client)
    return Worker(
        client,
        task_queue=ids.control_queue(deployment),
        workflows=ALL,
        activities=activities.build(
            activities.RecycleActivities(
                engine.rounds,
                engine.recycler(engine.sweeper),
                policy,
                attributes=knows,
                heavy_objects=settings.spark.spark_threshold_objects,
            ),
            activities.TickActivities(
                engine.schedule,
                lambda: schedules.nudge(client, deployment),
                engine.check_schedule.due,
                engine.wal.turns.due,
                engine.binlogs.turns.due,
            ),
            activities.CheckActivities(engine.checker, engine.in_process_compare, deployment),
            activities.SparkActivities(partial(spark_queue, client, settings)),
            activities.WalActivities(engine.wal.rounds),
            activities.BinlogActivities(engine.binlogs.rounds),
        ),
        activity_executor=ThreadPoolExecutor(at_once, thread_name_prefix="activity"),
        max_concurrent_activities=at_once,
        workflow_runner=sandbox.runner(),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=20),  # longer than a page: what was deleted is still stored
    )


def build_spark(client: Client, settings: Settings, db: Database, sessions: "Sessions") -> Worker:
    """Return a worker for what is done on Spark."""
    from sexton.runtime.spark.compare import scratch_of
    from sexton.runtime.spark.deletion import Work
    from sexton.runtime.spark.engine import AT_ONCE, SparkEngine
    from sexton.runtime.spark.locations import ConnectionTarget, without_password

    deployment, spark, engine = settings.require_deployment(), settings.spark, Engine(db, settings.terms())
    url, endpoint = without_password(settings.database_url), settings.s3.endpoint_url
    work = Work(
        where=ConnectionTarget(deployment=deployment, database_url=url, endpoint_url=endpoint),
        requests=spark.spark_task_requests,
        audit_url=settings.audit.audit_url,
        controls=settings.controls(),
    )
    scratch = scratch_of(spark.scratch, home(), local=sessions.local)
    heavy = SparkEngine(engine, sessions, work, connections=spark.spark_max_db_connections, scratch=scratch)
    return Worker(
        client,
        task_queue=ids.spark_queue(deployment),
        activities=[
            activities.CheckActivities(engine.checker, heavy.compare, deployment).compare,
            activities.RecycleActivities(engine.rounds, heavy.recycler, settings.policy()).recycle_range,
        ],
        activity_executor=ThreadPoolExecutor(AT_ONCE, thread_name_prefix="activity"),
        max_concurrent_activities=AT_ONCE,
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


def build_backend(client: Client, settings: Settings, backend: str, sweeper: "BackendSweeper") -> Worker:
    """Return a worker for what is done beside one storage node; it opens no database of ours."""
    return Worker(
        client,
        task_queue=ids.backend_queue(settings.require_deployment(), backend),
        activities=[activities.BackendActivities(sweeper).sweep_cuts],
        activity_executor=ThreadPoolExecutor(1, thread_name_prefix="activity"),
        max_concurrent_activities=1,
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=20),
    )


@contextmanager
def spark_sessions(settings: Settings) -> "Iterator[Sessions]":
    """Give the place where Spark's work runs; a server of our own ends with it."""
    from sexton.runtime.spark.session import Sessions

    limit = {"spark.sql.autoBroadcastJoinThreshold": str(settings.spark.spark_broadcast_max_bytes)}
    sessions = Sessions(settings.spark.remote, limit | settings.spark.conf, home(), settings.require_deployment())
    try:
        yield sessions
    finally:
        sessions.close()


async def main(role: str = "control", backend: beside.ServedBackend | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. ``backend``: beside which one, of that role."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("botocore.credentials").setLevel(logging.WARNING)  # else each client says where it found them
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else each request is a line
    load_home_env()
    settings, stop = load(), asyncio.Event()
    sessions: Sessions | None = None
    if backend is None:
        db = Database.open(settings.database_url)
        schema.check(db, settings.require_deployment())
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with AsyncExitStack() as open_:
        if backend is not None:
            sweeper = open_.enter_context(beside.opened(backend))
            serving = build_backend(await connect(settings), settings, backend.id, sweeper)
            await open_.enter_async_context(beside.catching_up(sweeper))
        elif role == "spark":
            client = await connect(settings)
            sessions = open_.enter_context(spark_sessions(settings))
            serving = build_spark(client, settings, db, sessions)
        else:
            serving = await build(await connect(settings), settings, db)
        async with serving:
            logging.info("%s worker of %s is polling %s", role, settings.deployment, settings.temporal.address)
            while not stop.is_set():
                if sessions is not None:
                    sessions.check()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK_SECONDS)


def asked(arguments: list[str]) -> tuple[str, beside.ServedBackend | None]:
    """Return the role that the command line names, and beside which backend; wrong usage ends the process."""
    parser = argparse.ArgumentParser(prog="python -m worker", description="Run a worker of this deployment.")
    roles = ("control", "spark", "backend")
    parser.add_argument("--role", choices=roles, default="control", help="what it does (default: control)")
    beside.add_options(parser)
    its = parser.parse_args(arguments)
    return its.role, beside.asked(parser, its)


if __name__ == "__main__":
    try:
        run(main(*asked(sys.argv[1:])))
    except SextonError as e:
        sys.exit(f"error: {e}")
