"""Let a Spark worker report that it runs, and how busy it is."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from sexton.database.engine import AWAY, first_line
from sexton.kernel.background import in_background
from sexton.runtime.spark.store import SparkWorkerStore

log = logging.getLogger(__name__)
REPORT_SECONDS = 10.0
"""How often a Spark worker reports: three times before it would count as absent."""


@asynccontextmanager
async def reporting(workers: SparkWorkerStore, slots: int, busy: Callable[[], int]) -> AsyncIterator[None]:
    """Report this process regularly, so that work is sent to it only while it has a free slot.

    Args:
        workers: the rows of all Spark workers.
        slots: how many activities this one takes at once.
        busy: returns how many it runs now.
    """
    name = f"{socket.gethostname()}:{os.getpid()}"
    await asyncio.to_thread(workers.report, name, slots, busy())
    try:
        async with in_background(_report_regularly(workers, name, slots, busy)):
            yield
    finally:
        with suppress(*AWAY):  # the row expires
            await asyncio.to_thread(workers.remove, name)


async def _report_regularly(workers: SparkWorkerStore, name: str, slots: int, busy: Callable[[], int]) -> None:
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        try:
            await asyncio.to_thread(workers.report, name, slots, busy())
        except AWAY as e:
            log.warning("the database did not take this worker's report: %s", first_line(e))
