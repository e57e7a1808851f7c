"""Delete one kind in 4 shards and in one, by several worker processes, from a slow store.

Each mark is a prefix: the store is asked to list it, which no page of keys can do for many marks at once. Rounds run on
a real Temporal server. `python -m benchmarks.shards SHARDS` runs a worker that divides a kind into so many.
"""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psycopg

from benchmarks import contenders
from benchmarks.contenders import DEPLOYMENT, INSTANCE, KIND, RETENTION_SECONDS, VAULT, worker_environment
from benchmarks.heavy import ROOT, stub
from benchmarks.results import Figure, Result, at_least
from benchmarks.scratch import scratch
from benchmarks.store import log_in
from config.settings import Settings
from sexton import contract
from sexton.database import schema
from sexton.database.engine import Database
from sexton.interfaces.worker import process
from sexton.recycle.model import RoundReport
from sexton.recycle.planning import policy
from sexton.recycle.rounds.model import RecycleRequest
from sexton.runtime.temporal.client import pollers
from sexton.runtime.temporal.client import run as run_worker
from tests.servers.postgres import Cluster
from tests.servers.temporal import DevServer, start_local
from workflows import ids

PAIRS = 3
SHARDS = 4
LEAST = 3.0


class Case(NamedTuple):
    """A number of worker processes, and a store that needs some seconds for each request."""

    workers: int
    delay_seconds: float
    marks: int


CASES = (Case(2, 0.03, 20_000), Case(4, 0.3, 8_000))
"""In the first, two cores send requests as fast as they can; in the second, they wait for the store."""


def run(cases: Sequence[Case] = CASES, pairs: int = PAIRS) -> Result:
    """Measure one shard and four in each case, in turns."""
    log_in()
    figures: list[Figure] = []
    runs: dict[str, dict[int, list[float]]] = {}
    cluster = Cluster()
    try:
        for case in cases:
            name = f"{case.workers} workers, {1_000 * case.delay_seconds:.0f} ms a request"
            seconds = runs[name] = _measure(cluster, case, pairs)
            for shards, took in seconds.items():
                rate = case.marks / statistics.median(took)
                figures.append(Figure(f"{name}: {shards} shards", f"{rate:,.0f} prefixes/s"))
            ratio = statistics.median(one / four for one, four in zip(seconds[1], seconds[SHARDS], strict=True))
            figures.append(at_least(f"{name}: {SHARDS} shards against one", ratio, LEAST))
    finally:
        cluster.stop()
    marks = ", ".join(f"{case.marks:,}" for case in cases)
    return Result(
        "shards", {"prefixes": marks, "pairs": pairs, "database": "PostgreSQL with fsync"}, figures, {"seconds": runs}
    )


def _measure(cluster: Cluster, case: Case, pairs: int) -> dict[int, list[float]]:
    """Return the seconds of rounds of one shard and of several."""
    seconds: dict[int, list[float]] = {1: [], SHARDS: []}
    for pair in range(pairs):
        for shards in (1, SHARDS) if pair % 2 else (SHARDS, 1):
            seconds[shards].append(asyncio.run(_round(cluster, case, shards)))
            rate = case.marks / seconds[shards][-1]
            print(f"pair {pair + 1}, {case.workers} workers, {shards} shards: {rate:,.0f} prefixes/s", flush=True)
    return seconds


async def _round(cluster: Cluster, case: Case, shards: int) -> float:
    """Return the seconds of one round, from its start until its report."""
    database = cluster.new_database(contenders.DEPLOYMENT)
    environment = await start_local()
    try:
        with stub(case.delay_seconds) as endpoint:
            contenders.prepare(database, endpoint, 0)
            _mark_prefixes(database, case.marks)
            server = DevServer(environment)
            with _workers(database, endpoint, server.address, shards, case.workers):
                client = await server.connect()
                while await pollers(client, Settings(deployment=DEPLOYMENT, database_url=database)) < case.workers:
                    await asyncio.sleep(0.1)
                began = time.perf_counter()
                report: RoundReport = await client.execute_workflow(
                    ids.RECYCLE,
                    RecycleRequest(instance=INSTANCE, requested_by="bench"),
                    id=ids.recycle(DEPLOYMENT, INSTANCE),
                    task_queue=ids.control_queue(DEPLOYMENT),
                    result_type=RoundReport,
                )
                took = time.perf_counter() - began
        if report.deleted != case.marks:
            raise AssertionError(f"the round did not do all: {report}")
        return took
    finally:
        await environment.shutdown()
        cluster.drop_database(database)


def _mark_prefixes(url: str, marks: int) -> None:
    """Mark prefixes of one object each, and let their retention end."""
    db = Database.open(url)
    with db.write() as c:
        new = (contract.NewMark(id=f"m-{n:08}", vault=VAULT, prefix=f"data/tablet-{n:08}/") for n in range(marks))
        contract.mark(c, INSTANCE, KIND, new)
    schema.move_clock(db, RETENTION_SECONDS + 1)
    db.close()
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


@contextmanager
def _workers(database: str, endpoint: str, temporal: str, shards: int, workers: int) -> Iterator[None]:
    """Run worker processes."""
    with scratch() as place:
        environment = worker_environment(place.disk, database, endpoint, temporal)
        command = [sys.executable, "-m", "benchmarks.shards", str(shards)]
        with (place.disk / "worker.log").open("w") as log:
            processes = [
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log) for _ in range(workers)
            ]
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


if __name__ == "__main__":
    policy.SHARD_OBJECTS, policy.MOST_SHARDS = 1, int(sys.argv[1])
    run_worker(process.main())
