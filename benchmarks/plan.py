"""Plan a round over 5,000,000 due marks while two owners mark all the time, on PostgreSQL with fsync and Temporal.

Goal: the first attempt of the activity succeeds. It fails if it sends no heartbeat for 10 s, and starts again.
`python -m benchmarks.plan URL NUMBER` is one of the owners, and marks until it is stopped.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from benchmarks import contenders
from benchmarks.contenders import DEPLOYMENT, INSTANCE, KIND, VAULT, mark_by_sql
from benchmarks.heavy import ROOT, stub
from benchmarks.results import Figure, Result, at_most
from benchmarks.store import log_in
from config.settings import Settings
from sexton import contract
from sexton.database.engine import Database
from sexton.interfaces.worker import control
from sexton.recycle.rounds.model import RecycleRequest, RoundProgress
from tests.servers.postgres import Cluster
from tests.servers.temporal import DevServer, start_local
from workflows import ids

MARKS = 5_000_000
OWNERS, MARKED_AT_ONCE = 2, 500


class _Planned(NamedTuple):
    """How the activity that planned ended: the number of its attempt, its seconds, and the marks of the plan."""

    attempt: int
    seconds: float
    marks: int


def run(marks: int = MARKS) -> Result:
    """Measure one plan."""
    log_in()
    cluster = Cluster()
    try:
        database = cluster.new_database(contenders.DEPLOYMENT)
        with stub() as endpoint:
            contenders.prepare(database, endpoint, 0)
            mark_by_sql(database, marks)
            planned = asyncio.run(_plan(database, endpoint))
    finally:
        cluster.stop()
    if planned.marks < marks:
        raise AssertionError(f"the plan has {planned.marks:,} of {marks:,} due marks")
    figures = [
        at_most("attempts of the activity that plans", planned.attempt, 1, "attempts", 0),
        Figure("seconds of the plan", f"{planned.seconds:.0f} s"),
    ]
    sizes = {"due marks": f"{marks:,}", "owners that mark meanwhile": OWNERS, "database": "PostgreSQL with fsync"}
    return Result("plan", sizes, figures, {"planned": planned._asdict()})


async def _plan(database: str, endpoint: str) -> _Planned:
    """Run a round until it is planned, then cancel it."""
    environment = await start_local()
    db = Database.open(database)
    try:
        client = await DevServer(environment).connect()
        settings = Settings(
            deployment=DEPLOYMENT,
            database_url=database,
            s3={"endpoint_url": endpoint},
            recycle={"max_delete_objects": 2 * MARKS},
        )
        async with await control.build(client, settings, db):
            with _owners(database):
                handle = await client.start_workflow(
                    ids.RECYCLE,
                    RecycleRequest(instance=INSTANCE, requested_by="bench"),
                    id=ids.recycle(DEPLOYMENT, INSTANCE),
                    task_queue=ids.control_queue(DEPLOYMENT),
                )
                while (progress := await handle.query("progress", result_type=RoundProgress)).plan is None:
                    await asyncio.sleep(0.5)
            history = await handle.fetch_history()
            await handle.cancel()
            with_marks = sum(kind.due for kind in progress.kinds)
        return _planned(history.events, with_marks)
    finally:
        db.close()
        await environment.shutdown()


def _planned(events: Any, marks: int) -> _Planned:
    """Return how the activity ended that planned, by the events of the round."""
    scheduled: dict[int, Any] = {}
    started: dict[int, int] = {}
    for event in events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            scheduled[event.event_id] = event
        elif event.HasField("activity_task_started_event_attributes"):
            attributes = event.activity_task_started_event_attributes
            started[attributes.scheduled_event_id] = attributes.attempt
        elif event.HasField("activity_task_completed_event_attributes"):
            number = event.activity_task_completed_event_attributes.scheduled_event_id
            if scheduled[number].activity_task_scheduled_event_attributes.activity_type.name == "make_plan":
                took = event.event_time.ToDatetime() - scheduled[number].event_time.ToDatetime()
                return _Planned(started[number], took.total_seconds(), marks)
    raise AssertionError("the round made no plan")


@contextmanager
def _owners(database: str) -> Iterator[None]:
    """Let owners mark meanwhile."""
    command = [sys.executable, "-m", "benchmarks.plan", database]
    processes = [subprocess.Popen([*command, str(n)], cwd=ROOT) for n in range(OWNERS)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _mark_always(url: str, owner: str) -> None:
    """Mark what is not due, a transaction at a time."""
    db, number = Database.open(url), 0
    while True:
        with db.write() as c:
            ids_ = (f"o-{owner}-{n}" for n in range(number, number + MARKED_AT_ONCE))
            contract.mark(c, INSTANCE, KIND, (contract.NewMark(id=i, vault=VAULT, keys=(f"new/{i}",)) for i in ids_))
        number += MARKED_AT_ONCE


if __name__ == "__main__":
    _mark_always(sys.argv[1], sys.argv[2])
