"""The composition root: settings → clients → adapters → a Temporal worker. ``python -m worker`` runs one."""

import asyncio
import logging
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

import activities
import workflows
from config.settings import Settings, load, load_home_env
from sexton.db import schema
from sexton.db.engine import Database
from sexton.lease import LeaseStore
from sexton.marks.store import MarkStore
from sexton.owner.sql import SqlOwner
from sexton.recycle.policy import policy
from sexton.recycle.steps import Recycler
from sexton.recycle.store import RoundStore
from sexton.recycle.sweep import Sweeper
from sexton.registry.store import Registry
from sexton.storage.vaults import ProvenVaults
from workflows import ids
from workflows.sandbox import runner

ACTIVITIES_AT_ONCE = 16
SHUTDOWN = timedelta(seconds=20)
"""Longer than a page may take, so that a stopped worker stores what it has deleted."""


def recycle_activities(settings: Settings, db: Database) -> activities.RecycleActivities:
    """Wire the recycle steps to this database and its vaults."""
    marks, leases = MarkStore(db), LeaseStore(db)
    vaults = ProvenVaults(Registry(db).vault, settings.require_deployment(), settings.s3.endpoint_url)
    sweeper = Sweeper(marks, vaults, settings.recycle.instance_recycler_worker_pool_size)
    recycler = Recycler(marks, leases, vaults, SqlOwner(db), sweeper)
    rules = policy(settings.retentions(), settings.recycle.upload_grace_seconds)
    return activities.RecycleActivities(RoundStore(db, leases), recycler, rules)


def build(client: Client, settings: Settings, db: Database) -> Worker:
    """Return a control worker: workflows and their activities."""
    return Worker(
        client,
        task_queue=ids.control_queue(settings.require_deployment()),
        workflows=workflows.ALL,
        activities=activities.build(recycle_activities(settings, db)),
        activity_executor=ThreadPoolExecutor(ACTIVITIES_AT_ONCE, thread_name_prefix="activity"),
        max_concurrent_activities=ACTIVITIES_AT_ONCE,
        workflow_runner=runner(),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=SHUTDOWN,
    )


async def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    load_home_env()
    settings = load()
    db = Database.open(settings.database_url)
    schema.check(db, settings.require_deployment())
    temporal = settings.temporal
    client = await Client.connect(
        temporal.address, namespace=temporal.namespace, data_converter=pydantic_data_converter
    )
    stop = asyncio.Event()
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with build(client, settings, db):
        logging.info("worker of %s is polling %s", settings.deployment, temporal.address)
        await stop.wait()


if __name__ == "__main__":
    asyncio.run(main())
