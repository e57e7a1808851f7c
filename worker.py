"""The composition root: settings → clients → adapters → a Temporal worker. ``python -m worker`` runs one."""

import asyncio
import logging
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Worker

import activities
from config.settings import Settings, load, load_home_env
from sexton.assembly import Engine
from sexton.db import schema
from sexton.db.engine import Database
from sexton.errors import SextonError
from sexton.metrics import server
from sexton.temporal import attributes, schedules
from sexton.temporal.client import connect, run
from workflows import ALL, ids, options, sandbox


async def build(client: Client, settings: Settings, db: Database) -> Worker:
    """Return a control worker: workflows and their activities, wired to this database and its vaults."""
    deployment, policy = settings.require_deployment(), settings.policy()
    engine, at_once = Engine(db, settings.terms()), options.activities_at_once(settings.recycle.recycle_concurrency)
    interval, flying = settings.recycle.recycle_interval_seconds, engine.sweeper.in_flight
    server.start(settings.metrics, db, engine.controls, policy, interval, flying)
    knows = not await attributes.missing(client)
    return Worker(
        client,
        task_queue=ids.control_queue(deployment),
        workflows=ALL,
        activities=activities.build(
            activities.RecycleActivities(engine.rounds, engine.recycler, policy, attributes=knows),
            activities.TickActivities(
                engine.turns, lambda: schedules.nudge(client, deployment), engine.check_turns.due
            ),
            activities.CheckActivities(engine.checker, engine.direct, deployment),
        ),
        activity_executor=ThreadPoolExecutor(at_once, thread_name_prefix="activity"),
        max_concurrent_activities=at_once,
        workflow_runner=sandbox.runner(),
        max_heartbeat_throttle_interval=timedelta(seconds=1),
        graceful_shutdown_timeout=timedelta(seconds=20),  # longer than a page: what was deleted is still stored
    )


async def main() -> None:
    """Serve until SIGTERM or Ctrl-C."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    load_home_env()
    settings, stop = load(), asyncio.Event()
    db = Database.open(settings.database_url)
    schema.check(db, settings.require_deployment())
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with await build(await connect(settings), settings, db):
        logging.info("worker of %s is polling %s", settings.deployment, settings.temporal.address)
        await stop.wait()


if __name__ == "__main__":
    try:
        run(main())
    except SextonError as e:
        sys.exit(f"error: {e}")
