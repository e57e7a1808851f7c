"""Let a worker report that it runs, with which settings, and how busy it is."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from config.explain import rows
from config.settings import Settings
from sexton.database.engine import AWAY, first_line
from sexton.insight.spark_slots import SPARK
from sexton.kernel.background import in_background
from sexton.runtime.temporal.versions import build_of
from sexton.runtime.workers.store import WorkerPresence, WorkerStore

log = logging.getLogger(__name__)
REPORT_SECONDS = 10.0
"""How often a worker reports: three times before it would count as absent."""


@asynccontextmanager
async def reporting(
    workers: WorkerStore, role: str, settings: Settings, slots: int = 0, busy: Callable[[], int] = lambda: 0
) -> AsyncIterator[None]:
    """Report this process until the context ends. A database that is away delays reports, and stops no work.

    Args:
        workers: the rows of all workers.
        role: control or spark.
        settings: those of this process, without those of the database.
        slots: how many activities a Spark worker takes at once: work is sent to it only while it has a free slot.
        busy: returns how many of them it runs now.
    """
    presence = WorkerPresence(
        worker=f"{socket.gethostname()}:{os.getpid()}",
        role=role,
        build=build_of(settings),
        metrics="" if role == SPARK else settings.metrics.listen,
        settings=own_settings(settings),
        slots=slots,
        busy=busy(),
    )
    with suppress(*AWAY):
        await asyncio.to_thread(workers.remove, presence.worker)
        await asyncio.to_thread(workers.report, presence)
    try:
        async with in_background(_report_regularly(workers, presence, busy)):
            yield
    finally:
        with suppress(*AWAY):  # the row expires
            await asyncio.to_thread(workers.remove, presence.worker)


def own_settings(settings: Settings) -> dict[str, str]:
    """Return the settings that all workers should share: those that the database may change."""
    return {row.key: row.value for row in rows(settings) if row.mutable}


async def _report_regularly(workers: WorkerStore, presence: WorkerPresence, busy: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        try:
            await asyncio.to_thread(workers.report, presence.model_copy(update={"busy": busy()}))
        except AWAY as e:
            log.warning("the database did not take this worker's report: %s", first_line(e))
