"""Delete one kind in 4 shards and in one, by two worker processes, from a store that needs 30 ms for each request.

Each mark is a prefix: the store is asked to list it, which no page of keys can do for many marks at once. Rounds run on
a real Temporal server. `python -m benchmarks.shards OBJECTS` runs a worker whose shards have so many objects.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

import worker
from benchmarks import contenders
from benchmarks.contenders import DEPLOYMENT, INSTANCE, KIND, RETENTION_SECONDS, VAULT
from benchmarks.heavy import ROOT, stub
from benchmarks.results import Figure, Result, at_least
from benchmarks.scratch import scratch
from benchmarks.store import log_in
from config.settings import Settings
from sexton import contract
from sexton.database import schema
from sexton.database.engine import Database
from sexton.recycle.model import RoundReport
from sexton.recycle.planning import policy
from sexton.recycle.rounds.model import RecycleRequest
from sexton.runtime.temporal.client import pollers
from sexton.runtime.temporal.client import run as run_worker
from tests.servers.postgres import Cluster
from tests.servers.temporal import DevServer, start_local
from workflows import ids

MARKS, PAIRS = 20_000, 3
SHARDS, WORKERS = 4, 2
DELAY_SECONDS = 0.03
LEAST = 3.0


def run(marks: int = MARKS, pairs: int = PAIRS) -> Result:
    """Measure one shard and four, in turns."""
    log_in()
    seconds: dict[int, list[float]] = {1: [], SHARDS: []}
    cluster = Cluster()
    try:
        for pair in range(pairs):
            for shards in (1, SHARDS) if pair % 2 else (SHARDS, 1):
                seconds[shards].append(asyncio.run(_round(cluster, marks, shards)))
                print(f"pair {pair + 1}, {shards} shards: {marks / seconds[shards][-1]:,.0f} prefixes/s", flush=True)
    finally:
        cluster.stop()
    ratio = statistics.median(one / four for one, four in zip(seconds[1], seconds[SHARDS], strict=True))
    figures = [
        Figure(f"{n} shards on {WORKERS} workers", f"{marks / statistics.median(took):,.0f} prefixes/s")
        for n, took in seconds.items()
    ]
    figures.append(at_least(f"{SHARDS} shards against one", ratio, LEAST))
    sizes = {"prefixes": f"{marks:,}", "pairs": pairs, "a request": "30 ms", "database": "PostgreSQL with fsync"}
    return Result("shards", sizes, figures, {"seconds": seconds})


async def _round(cluster: Cluster, marks: int, shards: int) -> float:
    """Return the seconds of one round, from its start until its report."""
    database = cluster.create_database()
    environment = await start_local()
    try:
        with stub(DELAY_SECONDS) as endpoint:
            contenders.prepare(database, endpoint, 0)
            _mark_prefixes(database, marks)
            server = DevServer(environment)
            with _workers(database, endpoint, server.address, -(-marks // shards)):
                client = await server.connect()
                while await pollers(client, Settings(deployment=DEPLOYMENT, database_url=database)) < WORKERS:
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
        if report.deleted != marks:
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
def _workers(database: str, endpoint: str, temporal: str, shard_objects: int) -> Iterator[None]:
    """Run worker processes."""
    with scratch() as place:
        environment = os.environ | {
            "SEXTON_HOME": str(place.disk),
            "SEXTON_DEPLOYMENT": DEPLOYMENT,
            "SEXTON_DATABASE_URL": database,
            "SEXTON_S3__ENDPOINT_URL": endpoint,
            "SEXTON_TEMPORAL__ADDRESS": temporal,
        }
        command = [sys.executable, "-m", "benchmarks.shards", str(shard_objects)]
        with (place.disk / "worker.log").open("w") as log:
            processes = [
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log) for _ in range(WORKERS)
            ]
        try:
            yield
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


if __name__ == "__main__":
    policy.SHARD_OBJECTS = int(sys.argv[1])
    run_worker(worker.main())
