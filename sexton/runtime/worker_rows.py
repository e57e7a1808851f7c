"""Let a worker report that it runs, with which settings, and how busy it is; read which workers run."""

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from sqlalchemy import delete, or_, select
from sqlalchemy.dialects.postgresql import insert as upsert

from config.explain import rows
from config.settings import Settings
from sexton.database.engine import AWAY, Database, first_line
from sexton.insight import progress
from sexton.kernel.message import Message
from sexton.kernel.process import in_background
from sexton.runtime.temporal.versions import build_of

FORGET_MS = 86_400_000
"""A worker that has not reported for a day has no row."""


class WorkerPresence(Message):
    """A worker that runs. ``settings``: those that the database may change, as its own environment and file set them.

    ``metrics`` is where it answers ``GET /metrics``, empty: nowhere. ``started_at`` is in ms since 1970. ``slots``: how
    many activities a Spark worker takes at once; ``busy``: how many it runs. ``reaches_temporal``: of a control worker.
    """

    worker: str
    role: str
    build: str = ""
    metrics: str = ""
    settings: Mapping[str, str] = {}
    started_at: int = 0
    slots: int = 0
    busy: int = 0
    reaches_temporal: bool = True


class WorkerStore:
    """The rows of workers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def report(self, presence: WorkerPresence) -> None:
        """Store that a worker runs, and forget those that have been absent for a day."""
        t = self._db.t.worker_presence
        with self._db.write() as c:
            now = self._db.machine_now(c)
            values = presence.model_dump() | {"seen_at": now, "started_at": now}
            changes = {name: value for name, value in values.items() if name not in ("worker", "started_at")}
            row = upsert(t).values(**values)
            c.execute(row.on_conflict_do_update(index_elements=["worker"], set_=changes))
            # A row from the future was written while the database's clock was ahead.
            c.execute(delete(t).where(or_(t.c.seen_at < now - FORGET_MS, t.c.seen_at > now + progress.ABSENT_MS)))

    def remove(self, worker: str) -> None:
        """Remove a worker that ends, or one that starts under the name of another that has ended."""
        t = self._db.t.worker_presence
        with self._db.write() as c:
            c.execute(delete(t).where(t.c.worker == worker))

    def present(self) -> Sequence[WorkerPresence]:
        """Return the workers that run, in the order of their names."""
        t = self._db.t.worker_presence
        with self._db.read() as c:
            seen = t.c.seen_at > self._db.machine_now(c) - progress.ABSENT_MS
            return [WorkerPresence(**row._mapping) for row in c.execute(select(t).where(seen).order_by(t.c.worker))]

    def count_slots(self) -> tuple[int, int]:
        """Return how many activities all Spark workers that run take at once, and how many more they would take now."""
        with self._db.read() as c:
            present = progress.read_slots(self._db, c)
        return present.slots, present.slots - present.busy


log = logging.getLogger(__name__)
REPORT_SECONDS = 10.0
"""How often a worker reports: three times before it would count as absent."""


@asynccontextmanager
async def reporting(
    workers: WorkerStore,
    role: str,
    settings: Settings,
    metrics: str,
    slots: int = 0,
    state: Callable[[], Awaitable[Mapping[str, int]]] | None = None,
) -> AsyncIterator[None]:
    """Report this process until the context ends. A database that is away delays reports, and stops no work.

    ``settings``: those of this process, without those of the database. ``slots``: how many activities a Spark worker
    takes at once: work is sent to it only while it has a free slot. ``state`` returns the fields that change meanwhile.
    ``metrics``: where it answers ``GET /metrics``; empty: nowhere.
    """
    presence = WorkerPresence(
        worker=f"{socket.gethostname()}:{os.getpid()}",
        role=role,
        build=build_of(settings),
        metrics=metrics,
        settings=own_settings(settings),
        slots=slots,
    )
    with suppress(*AWAY):
        await asyncio.to_thread(workers.remove, presence.worker)

    async def report() -> None:
        changed = {} if state is None else await state()
        try:
            await asyncio.to_thread(workers.report, presence.model_copy(update=dict(changed)))
        except AWAY as e:
            log.warning("the database did not take this worker's report: %s", first_line(e))

    async def report_regularly() -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            await report()

    await report()
    try:
        async with in_background(report_regularly()):
            yield
    finally:
        with suppress(*AWAY):  # the row expires
            await asyncio.to_thread(workers.remove, presence.worker)


def own_settings(settings: Settings) -> dict[str, str]:
    """Return the settings that all workers should share: those that the database may change."""
    return {row.key: row.value for row in rows(settings) if row.mutable}
