"""One key per mark against a hundred, as an operator sees it: `sexton round run` with one worker and a real store.

Timed is the round, from its start to its report; the command itself needs some seconds more, which would hide the
difference. The same objects of a SeaweedFS are marked either way, in PostgreSQL with fsync, and VACUUM ANALYZE follows.
"""

import asyncio
import statistics
import subprocess
import sys

import psycopg

from benchmarks import contenders
from benchmarks.contenders import DEPLOYMENT, INSTANCE, worker_environment
from benchmarks.heavy import ROOT
from benchmarks.keys import share
from benchmarks.results import Figure, Result, at_least
from benchmarks.scratch import scratch
from benchmarks.store import KEYS_A_MARK, FilledStore
from config.settings import Settings
from sexton.recycle.model import RoundReport
from sexton.runtime.temporal.client import pollers
from tests.servers.postgres import Cluster
from tests.servers.temporal import DevServer, start_local

OBJECTS, PAIRS = 20_000, 5
LEAST_SHARE = 0.8


def run(objects: int = OBJECTS, pairs: int = PAIRS) -> Result:
    """Measure both kinds of marks in turns."""
    seconds: dict[int, list[float]] = {1: [], KEYS_A_MARK: []}
    cluster = Cluster()
    try:
        with scratch() as place:
            store, registered = FilledStore(place.memory / "store", objects, apart=False), cluster.create_database()
            store.fill(lambda endpoint: contenders.prepare(registered, endpoint, 0))
            for pair in range(pairs):
                for keys in (1, KEYS_A_MARK) if pair % 2 else (KEYS_A_MARK, 1):
                    database = cluster.create_database(template=registered)
                    contenders.mark(database, objects // keys, keys)
                    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as connection:
                        connection.execute("VACUUM ANALYZE")
                    with store.full() as endpoint:
                        seconds[keys].append(asyncio.run(_round(database, endpoint, objects)))
                    cluster.drop_database(database)
                    print(f"pair {pair + 1}, {keys} keys: {objects / seconds[keys][-1]:,.0f} objects/s", flush=True)
    finally:
        cluster.stop()
    figures = [
        Figure(f"{keys} keys per mark", f"{objects / statistics.median(took):,.0f} objects/s")
        for keys, took in seconds.items()
    ]
    figures.append(at_least(f"one key per mark against {KEYS_A_MARK}, median", share(seconds), LEAST_SHARE))
    sizes = {"objects": f"{objects:,}", "pairs": pairs, "database": "PostgreSQL with fsync"}
    return Result("commands", sizes, figures, {"seconds": seconds})


async def _round(database: str, endpoint: str, objects: int) -> float:
    """Return the seconds of one round, started by `sexton round run`, with one worker that is ready."""
    environment = await start_local()
    try:
        server = DevServer(environment)
        with scratch() as place:
            variables = worker_environment(place.disk, database, endpoint, server.address)
            with (place.disk / "worker.log").open("w") as log:
                command = [sys.executable, "-m", "sexton", "worker", "run"]
                process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=log, stderr=log)
            try:
                client = await server.connect()
                while not await pollers(client, Settings(deployment=DEPLOYMENT, database_url=database)):
                    await asyncio.sleep(0.1)
                command = [sys.executable, "-m", "sexton", "round", "run", INSTANCE, "--json"]
                ran = await asyncio.to_thread(
                    subprocess.run, command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, check=True
                )
            finally:
                process.terminate()
                process.wait()
        report = RoundReport.model_validate_json(ran.stdout)
        if report.deleted != objects or report.started_at is None or report.ended_at is None:
            raise AssertionError(f"the round did not do all: {report}")
        return (report.ended_at - report.started_at) / 1000
    finally:
        await environment.shutdown()
