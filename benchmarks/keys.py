"""Delete the same number of objects with one key per mark and with a hundred, on PostgreSQL with fsync.

The store answers at once, so the time is that of the client and its database. Statistics of the tables are taken
before anything is marked, or after everything is marked and before anything is claimed. Both are stale during the
round; autovacuum, which might take better ones meanwhile, is off for these tables.
"""

import statistics
from typing import NamedTuple

import psycopg

from benchmarks import contenders
from benchmarks.contenders import Job
from benchmarks.heavy import measure, stub
from benchmarks.results import Figure, Result, at_least, at_most
from benchmarks.store import KEYS_A_MARK, log_in
from tests.servers.postgres import Cluster

OBJECTS, PAIRS = 200_000, 3
REQUESTS = 8
STATISTICS = ("empty", "marked")
LEAST_SHARE = 0.5
MOST_WAL = {1: 500.0, KEYS_A_MARK: 50.0}
"""Bytes of write-ahead log per object, by keys per mark; with one, each object has a mark and history of its own."""


def run(objects: int = OBJECTS, pairs: int = PAIRS) -> Result:
    """Measure both kinds of marks under both statistics, in turns."""
    log_in()
    seconds: dict[str, dict[int, list[float]]] = {s: {1: [], KEYS_A_MARK: []} for s in STATISTICS}
    costs: dict[int, list[_Cost]] = {1: [], KEYS_A_MARK: []}
    cluster = Cluster()
    try:
        for pair in range(pairs):
            for taken in STATISTICS:
                for keys in (1, KEYS_A_MARK) if pair % 2 else (KEYS_A_MARK, 1):
                    cost = _cost(cluster, objects, keys, taken)
                    costs[keys].append(cost)
                    seconds[taken][keys].append(cost.seconds)
                    rate = objects / seconds[taken][keys][-1]
                    print(f"pair {pair + 1}, statistics {taken}, {keys} keys: {rate:,.0f} objects/s", flush=True)
    finally:
        cluster.stop()
    figures = [
        Figure(f"statistics {taken}, {keys} keys per mark", f"{objects / statistics.median(times):,.0f} objects/s")
        for taken, by_keys in seconds.items()
        for keys, times in by_keys.items()
    ]
    for keys, of_keys in costs.items():
        cpu, wal = (
            statistics.median(values) / objects for values in ([c.cpu for c in of_keys], [c.wal for c in of_keys])
        )
        figures.append(Figure(f"{keys} keys per mark: CPU for 1,000 objects", f"{1_000_000 * cpu:.0f} ms"))
        figures.append(at_most(f"{keys} keys per mark: write-ahead log per object", wal, MOST_WAL[keys], "bytes", 0))
    figures += [
        at_least(f"statistics {taken}: one key per mark against {KEYS_A_MARK}", share(seconds[taken]), LEAST_SHARE)
        for taken in STATISTICS
    ]
    sizes = {"objects": f"{objects:,}", "pairs": pairs, "database": "PostgreSQL with fsync"}
    return Result("keys", sizes, figures, {"seconds": seconds, "costs": costs})


def share(by_keys: dict[int, list[float]]) -> float:
    """Return the rate of one key per mark as a share of that of a hundred, by the seconds of both: the median pair."""
    return statistics.median(many / one for one, many in zip(by_keys[1], by_keys[KEYS_A_MARK], strict=True))


class _Cost(NamedTuple):
    """What one round cost: seconds, CPU seconds of the worker, and bytes of write-ahead log."""

    seconds: float
    cpu: float
    wal: float


def _cost(cluster: Cluster, objects: int, keys: int, statistics_taken: str) -> _Cost:
    """Return the cost of one round over marks of so many keys."""
    database = cluster.new_database(contenders.DEPLOYMENT)
    try:
        with stub() as endpoint:
            contenders.prepare(database, endpoint, 0)
            with psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as c:
                for table in ("mark", "file_list", "mark_history"):
                    c.execute(f"ALTER TABLE sexton.{table} SET (autovacuum_enabled = off)")
                c.execute("ANALYZE")
                contenders.mark(database, objects // keys, keys)
                if statistics_taken == "marked":
                    c.execute("VACUUM ANALYZE")
                before = c.execute("SELECT pg_current_wal_lsn()").fetchone()
                measured = measure(Job("direct", endpoint, objects // keys, REQUESTS, database, keys))
                wal = c.execute("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), %s)", before).fetchone()
            return _Cost(measured["seconds"], measured["cpu"], float(wal[0] if wal else 0))
    finally:
        cluster.drop_database(database)
