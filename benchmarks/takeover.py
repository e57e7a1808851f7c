"""Take over from a worker that was killed with very many claimed marks, each of one key, on PostgreSQL with fsync.

`python -m benchmarks.takeover claim JOB` claims every mark and is killed; `finish JOB` is the next attempt.
"""

import json
import os
import signal
import subprocess
import sys
import time
from types import TracebackType
from typing import Self

import psycopg

from benchmarks import contenders
from benchmarks.contenders import INSTANCE, POLICY, RUN, Job
from benchmarks.heavy import ROOT, stub
from benchmarks.results import Figure, Result, at_most
from benchmarks.store import log_in
from config.settings import EngineSettings
from sexton.database.engine import Database
from sexton.kernel import crash_points
from sexton.marks.model import WriteToken
from sexton.recycle.pipeline import ranges
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.model import RangeOrder
from sexton.recycle.rounds.ledger import Ledger
from sexton.runtime.engine import Engine
from tests.servers.postgres import Cluster

MARKS = 200_000
MOST_SECONDS = 15.0
"""After the end of the lease, which another run may have to wait for."""


class KilledBeforeDeleting:
    """A deletion that kills its process when every mark is claimed. Implements ``Deleter`` and ``Deletion``."""

    leaves_requests = False

    def begin(self, _token: WriteToken, _active_lease: ActiveLease, _after: int = 0) -> Self:
        """Return itself: it deletes nothing."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _type: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        """Do nothing."""

    def release_up_to(self, _to: int) -> None:
        """Do nothing."""

    def has_tried(self, _to: int) -> bool:
        """Return that nothing was tried, so that everything is claimed first."""
        return False

    def wait_for(self, to: int) -> None:
        """Kill this process: all marks are claimed, and none is deleted."""
        if to:
            os.kill(os.getpid(), signal.SIGKILL)

    def logged(self, _after: int, _to: int) -> bool:
        """Return that nothing was logged."""
        return False

    def finish(self) -> None:
        """Do nothing."""


def run(marks: int = MARKS) -> Result:
    """Measure how soon the next attempt deletes, and how long it takes."""
    log_in()
    cluster = Cluster()
    try:
        database = cluster.new_database(contenders.DEPLOYMENT)
        with stub() as endpoint:
            contenders.prepare(database, endpoint, 0)
            with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as c:
                c.execute("ANALYZE")  # of empty tables: the statistics that a backlog finds
            contenders.mark(database, marks, 1)
            argument = Job("direct", endpoint, marks, 8, database, 1).argument()
            command = [sys.executable, "-m", "benchmarks.takeover"]
            killed = subprocess.run([*command, "claim", argument], cwd=ROOT).returncode
            if killed != -signal.SIGKILL:
                raise AssertionError(f"the first attempt ended with {killed}")
            ended = subprocess.run([*command, "finish", argument], stdout=subprocess.PIPE, check=True, cwd=ROOT)
    finally:
        cluster.stop()
    seconds: dict[str, float] = json.loads(ended.stdout)
    figures = [
        at_most("seconds from the start of the next attempt to its first page", seconds["first"], MOST_SECONDS, "s", 1),
        Figure("seconds until everything was deleted and settled", f"{seconds['all']:.0f} s"),
    ]
    return Result("takeover", {"marks": f"{marks:,}", "database": "PostgreSQL with fsync"}, figures, seconds)


def _order(engine: Engine) -> RangeOrder:
    """Return the order of the round's only range; the same for both attempts."""
    opened = engine.rounds.open(INSTANCE, RUN, None, POLICY)
    plan, ledger = engine.rounds.plan(INSTANCE, POLICY, "bench"), Ledger()
    ledger.begin(plan)
    [kind] = plan.kinds
    return ledger.next_range(opened, plan, kind, 0).model_copy(update={"until": None, "limit": kind.marks})


def main() -> None:
    """Do one of the two attempts."""
    job = Job(**json.loads(sys.argv[2]))
    engine = Engine(Database.open(job.database), EngineSettings("test-bench", job.endpoint, requests_at_once=8))
    ranges.RANGE_OBJECTS = job.marks
    if sys.argv[1] == "claim":
        order = _order(engine)
        with engine.stores.db.write() as c:
            c.exec_driver_sql("CREATE TABLE IF NOT EXISTS public.bench_order (body text)")
            c.exec_driver_sql("INSERT INTO public.bench_order VALUES (%s)", (order.model_dump_json(),))
        recycler = engine.recycler(KilledBeforeDeleting(), group_files=job.marks)
        recycler.recycle(order, 1, lambda: None)
        raise AssertionError("it should have been killed")
    with engine.stores.db.read() as c:
        order = RangeOrder.model_validate_json(c.exec_driver_sql("SELECT body FROM public.bench_order").scalar_one())
    began, first = time.perf_counter(), [0.0]

    def note(name: str) -> None:
        if name == "files.deleted" and not first[0]:
            first[0] = time.perf_counter() - began

    with crash_points.installed(note):
        receipt = engine.recycler(engine.deleter).recycle(order, 2, lambda: None)
    if receipt.objects != job.marks:
        raise AssertionError(f"not everything was deleted: {receipt}")
    print(json.dumps({"first": first[0], "all": time.perf_counter() - began}))


if __name__ == "__main__":
    main()
