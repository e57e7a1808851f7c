"""The process of a worker: open its resources, run it until a signal, close them."""

import asyncio
import logging
import signal
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

from config.settings import load
from config.sources import load_home_env
from sexton.database import schema
from sexton.database.engine import Database
from sexton.interfaces.worker.control import build, build_backend
from sexton.interfaces.worker.spark import spark_sessions, spark_worker
from sexton.kernel import logs
from sexton.kernel.process import in_background, search_cycles_rarely
from sexton.replication.agent import serving
from sexton.runtime.deployment import Deployment
from sexton.runtime.notices import Notices
from sexton.runtime.temporal import schedules, versions
from sexton.runtime.temporal.client import connect, connection
from sexton.runtime.temporal.observing import SdkMetrics, reached, runtime
from sexton.runtime.worker_rows import reporting

if TYPE_CHECKING:
    from sexton.runtime.spark.session import Sessions

SERVER_CHECK_SECONDS = 1.0
"""How often a Spark worker checks that its own server runs: a worker without one must not take work."""


async def main(role: str = "control", backend: serving.ServedBackend | None = None) -> None:
    """Serve until SIGTERM or Ctrl-C. ``backend``: the storage node, for the role of that name."""
    load_home_env()
    settings, stop = load(), asyncio.Event()
    logs.configure(settings.log.format, settings.log.level, deployment=settings.deployment, role=role)
    sessions: Sessions | None = None
    worker: AbstractAsyncContextManager[object]
    if backend is None:
        db = Database.open(settings.require_database_url(), live_url=settings.live_database_url)
        schema.check(db, settings.require_deployment())
    for sig in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(sig, stop.set)
    async with AsyncExitStack() as resources:
        if backend is not None:
            sweeper = resources.enter_context(serving.open_sweeper(backend))
            worker = build_backend(await connect(settings, runtime()), settings, backend.id, sweeper)
            await resources.enter_async_context(serving.catching_up(sweeper))
        elif role == "spark":
            sdk = SdkMetrics()
            client = await connect(settings, sdk.runtime)
            sessions = resources.enter_context(spark_sessions(settings))
            worker = spark_worker(client, settings, db, sessions, sdk)
        else:
            sdk, service = SdkMetrics(), Deployment(settings, db)
            client = await connect(settings, sdk.runtime)
            await schedules.warn_if_idle(client, settings.require_deployment())
            await resources.enter_async_context(in_background(schedules.follow_interval(client, db, service.live)))
            if settings.notices.url:  # beside the schedule: that it does not tick is one of the problems
                await resources.enter_async_context(in_background(Notices(service).post_regularly()))
            if settings.temporal.worker_versioning:
                await resources.enter_async_context(in_background(versions.promote_first(client, settings)))
            metrics = await resources.enter_async_context(await build(client, settings, db, sdk))
            worker = reporting(service.stores.workers, role, settings, metrics, state=partial(reached, client))
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
