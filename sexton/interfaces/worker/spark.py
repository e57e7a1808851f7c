"""The Spark worker: listings, comparisons and deletions of many objects on Spark's executors."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from temporalio.client import Client
from temporalio.worker import Worker

import activities
from config.settings import Settings
from config.sources import home
from sexton.database.engine import Database
from sexton.insight.progress import SPARK
from sexton.interfaces.worker.control import slots
from sexton.runtime.engine import Engine
from sexton.runtime.stores import live_settings
from sexton.runtime.temporal.log_context import ActivityCounter
from sexton.runtime.temporal.observing import SdkMetrics, observe_process
from sexton.runtime.worker_rows import reporting
from workflows import ids

if TYPE_CHECKING:
    from sexton.runtime.spark.session import Sessions


@asynccontextmanager
async def spark_worker(
    client: Client, settings: Settings, db: Database, sessions: "Sessions", sdk: SdkMetrics | None = None
) -> AsyncIterator[Worker]:
    """Run a Spark worker, which compares, and deletes ranges, on Spark's executors; it reports how busy it is.

    It serves its health and the metrics of its process, not the figures from the database: those would look as if a
    control worker ran.
    """
    from sexton.runtime.spark.compare import scratch_of
    from sexton.runtime.spark.deleter import AT_ONCE, SparkEngine
    from sexton.runtime.spark.deletion import Work
    from sexton.runtime.spark.locations import ConnectionTarget, without_password

    deployment, spark = settings.require_deployment(), settings.spark
    live = live_settings(db, settings)
    engine, policy = Engine(db, live.engine_settings()), live.current.map(Settings.policy)
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
    recycle = activities.RecycleActivities(engine.rounds, heavy.recycler, policy)
    worker = Worker(
        client,
        task_queue=ids.spark_queue(deployment),
        activities=[
            activities.CheckActivities(engine.checker, heavy.compare, deployment).compare,
            recycle.recycle_range,
            recycle.adopt_claimed,
        ],
        interceptors=[counter],
        **slots(settings, AT_ONCE),
    )
    metrics = observe_process(settings, db, client, (worker,), sdk)

    async def state() -> dict[str, int]:
        return {"busy": counter.running}

    async with worker, reporting(engine.stores.workers, SPARK, settings, metrics, AT_ONCE, state):
        yield worker


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
