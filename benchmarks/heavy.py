"""Delete on Spark and by threads of one process: in turns over one store; and what an object costs, however many.

Goals: Spark on one machine does at least 0.85 of what threads do, with as many requests under way, for at most 1.3 of
their CPU seconds, and 1.5 of those of a plain PySpark job, which keeps no books; CPU seconds of the
client and transactions for 1,000 objects stay within 15 % from 100,000 objects to 10 million, on a store that answers
at once.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg

from benchmarks import contenders
from benchmarks.contenders import CORES, Job
from benchmarks.results import Figure, Result, at_least, at_most
from benchmarks.scratch import scratch
from benchmarks.store import KEYS_A_MARK, OBJECT_BYTES, FilledStore, log_in
from sexton.runtime.embedded.ports import free_port, is_open
from tests.servers.postgres import Cluster

OBJECTS, PAIRS = 200_000, 5
SIZES = (100_000, 1_000_000, 10_000_000)
ON_SPARK = (1_000_000,)
SOAK = (1_000_000, 10_000_000)
"""Sizes on Spark, where less never goes; what it costs to start a JVM is not what an object costs."""
REQUESTS = 8
SHARE, MOST_CPU, MOST_OF_PLAIN, MOST_GROWTH = 0.85, 1.3, 1.5, 15.0
ROOT = Path(__file__).parents[1]
BOTH, PLAIN = ("direct", "spark"), "pyspark"
Each = dict[str, list[float]]
"""What each contender needed, turn by turn."""


def run(objects: int = OBJECTS, pairs: int = PAIRS) -> Result:
    """Measure both over one store, then both and a plain PySpark job over a store that answers at once."""
    cluster = Cluster()
    try:
        with scratch() as place:
            store, marked = FilledStore(place.memory / "store", objects), cluster.create_database()
            store.fill(lambda endpoint: contenders.prepare(marked, endpoint, store.marks))

            def over_store(name: str) -> dict[str, float]:
                with _copy(cluster, marked) as database, store.full() as endpoint:
                    return measure(Job(name, endpoint, store.marks, REQUESTS, database))

            took, cpu = _in_turns(BOTH, pairs, over_store)

        def over_stub(name: str) -> dict[str, float]:
            database = cluster.create_database()
            with stub() as endpoint:
                contenders.prepare(database, endpoint, objects // KEYS_A_MARK)
                told = measure(Job(name, endpoint, objects // KEYS_A_MARK, REQUESTS, database))
            cluster.drop_database(database)
            return told

        stub_took, stub_cpu = _in_turns((*BOTH, PLAIN), pairs, over_stub)
    finally:
        cluster.stop()
    figures = [
        *_costs("", objects, took, cpu),
        at_least("objects/s on Spark against threads, median", _ratio(took, "direct", "spark"), SHARE),
        at_most("CPU on Spark against threads, median", _ratio(cpu, "spark", "direct"), MOST_CPU, "x"),
        *_costs(", stub", objects, stub_took, stub_cpu),
        at_most("stub: CPU on Spark against threads, median", _ratio(stub_cpu, "spark", "direct"), MOST_CPU, "x"),
        at_most("stub: CPU against a plain PySpark job, median", _ratio(stub_cpu, "spark", PLAIN), MOST_OF_PLAIN, "x"),
    ]
    sizes = {
        "objects": f"{objects:,}",
        "bytes each": OBJECT_BYTES,
        "pairs": pairs,
        "requests under way": REQUESTS,
        "Spark's cores": CORES,
        "database": "PostgreSQL",
    }
    return Result(
        "heavy", sizes, figures, {"seconds": took, "cpu": cpu, "stub seconds": stub_took, "stub cpu": stub_cpu}
    )


def _in_turns(names: Sequence[str], pairs: int, turn: Callable[[str], dict[str, float]]) -> tuple[Each, Each]:
    """Let contenders take turns, in an order that changes; return the seconds and the CPU seconds of each."""
    took: Each = {name: [] for name in names}
    cpu: Each = {name: [] for name in names}
    for pair in range(pairs):
        for name in names if pair % 2 else names[::-1]:
            told = turn(name)
            took[name].append(told["seconds"])
            cpu[name].append(told["cpu"])
        each = (f"{name} {took[name][-1]:.1f} s (CPU {cpu[name][-1]:.1f} s)" for name in names)
        print(f"pair {pair + 1}: {', '.join(each)}", flush=True)
    return took, cpu


def _ratio(of: Each, one: str, other: str) -> float:
    """Return the median of the ratio of one contender to another, pair by pair."""
    return statistics.median(a / b for a, b in zip(of[one], of[other], strict=True))


def _costs(store: str, objects: int, took: Each, cpu: Each) -> list[Figure]:
    return [
        Figure(
            f"{name}{store}: objects/s, CPU seconds for 1,000",
            f"{objects / statistics.median(took[name]):,.0f}, {1_000 * statistics.median(cpu[name]) / objects:.3f}",
        )
        for name in took
    ]


def scale(sizes: Sequence[int] = SIZES, on_spark: Sequence[int] = ON_SPARK) -> Result:
    """Measure what 1,000 objects cost at each size, on a store that answers at once."""
    log_in()
    cluster = Cluster(fsync=False)
    found: dict[str, dict[int, dict[str, float]]] = {name: {} for name in BOTH}
    try:
        for name, its in zip(BOTH, (sizes, on_spark), strict=True):
            for objects in its:
                with stub() as endpoint:
                    database = cluster.new_database(contenders.DEPLOYMENT)
                    contenders.prepare(database, endpoint, objects // KEYS_A_MARK)
                    with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as c:
                        c.execute("VACUUM ANALYZE")
                        before = _transactions(c)
                        told = measure(Job(name, endpoint, objects // KEYS_A_MARK, REQUESTS, database))
                        transactions = _transactions(c) - before
                    cluster.drop_database(database)
                thousands = objects / 1_000
                found[name][objects] = {
                    "cpu": told["cpu"] / thousands,
                    "transactions": transactions / thousands,
                    "seconds": told["seconds"],
                }
                print(f"{name}, {objects:,} objects: {found[name][objects]}", flush=True)
    finally:
        cluster.stop()
    figures = []
    for name, by_size in found.items():
        for objects, of in by_size.items():
            cost = f"{1_000 * of['cpu']:.1f} ms, {of['transactions']:.1f}"
            figures.append(Figure(f"{name}, {objects:,} objects: CPU, transactions for 1,000", cost))
        for what in ("cpu", "transactions") if len(by_size) > 1 else ():
            each = [of[what] for of in by_size.values()]
            spread = 100 * max(max(each) / each[0] - 1, 1 - min(each) / each[0])
            figures.append(at_most(f"{name}: {what} for 1,000 objects, most it differs", spread, MOST_GROWTH, "%", 1))
    named = {"objects": ", ".join(f"{n:,}" for n in sizes), "keys a mark": KEYS_A_MARK, "database": "PostgreSQL"}
    return Result("scale", named, figures, {"found": found})


def measure(job: Job) -> dict[str, float]:
    """Let one contender delete in a process of its own; return its seconds and CPU seconds."""
    command = [sys.executable, "-m", "benchmarks.contenders", job.argument()]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=ROOT)
    told: dict[str, float] = json.loads(ran.stdout)
    return told


def _transactions(c: psycopg.Connection) -> int:
    """Return how many transactions a database has had; sessions that ended have reported theirs."""
    row = c.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").fetchone()
    return int(row[0]) if row else 0


@contextmanager
def _copy(cluster: Cluster, of: str) -> Iterator[str]:
    """Give a fresh copy of a database."""
    database = cluster.create_database(template=of)
    try:
        yield database
    finally:
        cluster.drop_database(database)


def stub(delay_seconds: float = 0.0) -> AbstractContextManager[str]:
    """Start a store that answers at once, or after a delay."""
    return served("benchmarks.stub_bucket", delay_seconds)


@contextmanager
def served(module: str, argument: float) -> Iterator[str]:
    """Start a store of our own, `python -m MODULE PORT ARGUMENT`; yield its address."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", module, str(port), str(argument)], cwd=ROOT)
    try:
        while not is_open(port):
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
