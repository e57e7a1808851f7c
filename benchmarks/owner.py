"""What Sexton costs its owner: bulk marks in one statement, and commits while rounds run.

`python -m benchmarks.owner` starts a PostgreSQL cluster of its own (fsync on). Commits are measured
in interleaved pairs, rounds running and rounds paused; the peer of each pair is its paused half.
"""

import multiprocessing
import statistics
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from sqlalchemy import create_engine, text

from sexton import contract
from sexton.kernel.crash_points import installed
from tests.servers.postgres import Cluster
from tests.support.rig import Rig

MARKS = 100_000
PAIRS = 7
COMMITS = 400
BETWEEN_TRANSACTIONS = {"resolve.stored", "claim.committed", "outcomes.recorded", "marks.removed"}
BATCH = 10
"""Rowsets a commit publishes."""


def bulk(rig: Rig, kind: str) -> float:
    """Insert ``MARKS`` leaf marks in one statement; return its seconds, commit included."""
    began = time.perf_counter()
    rig.sql(
        "INSERT INTO {}mark (instance, kind, id, vault, prefix, bytes) "
        f"SELECT 'shop', '{kind}', '{kind}-' || n, 'disk', 'data/' || n || '/', 100 FROM generate_series(1, {MARKS}) n"
    )
    return time.perf_counter() - began


def rounds(url: str, running: Event, stop: Event) -> None:
    """Run rounds over marks without files, pausing between transactions while ``running`` is clear."""
    rig = Rig(url, threads=2)
    rig.vaults._clock = time.monotonic

    def pause(name: str) -> None:
        if name in BETWEEN_TRANSACTIONS:
            running.wait()

    with installed(pause):
        while not stop.is_set():
            rig.round()


def commits(url: str, number: int) -> float:
    """Publish ``COMMITS`` times; return the median seconds of the owner's whole transaction."""
    engine = create_engine(url, isolation_level="READ COMMITTED")
    took = []
    with engine.connect() as c:
        for n in range(COMMITS):
            ids = [f"r{number}-{n}-{i}" for i in range(BATCH)]
            contract.prepare(c, "shop", "load", ids, "disk", [f"load/{i}/" for i in ids], 3_600)
            c.commit()
            began = time.perf_counter()
            for i in ids:
                c.execute(text("INSERT INTO rowset VALUES (:i)"), {"i": i})
            contract.commit(c, "shop", ids)
            c.commit()
            took.append(time.perf_counter() - began)
    engine.dispose()
    return statistics.median(took)


def main() -> None:
    """Measure and print."""
    cluster = Cluster()
    with tempfile.TemporaryDirectory() as scratch:
        try:
            url = cluster.new_database()
            rig = Rig(url).instance()
            took = [bulk(rig, f"dropped{n}") for n in range(3)]
            print(f"{MARKS:,} leaf marks in one statement: median {statistics.median(took):.2f} s")
            rig.sql("DELETE FROM {}mark")
            rig.local(Path(scratch) / "v")
            rig.sql("CREATE TABLE public.rowset (id text PRIMARY KEY)")
            for n in range(6):
                rig.sql(
                    "INSERT INTO {}mark (instance, kind, id, vault, keys, bytes) SELECT 'shop', 'dropped', "
                    f"'{n}-' || n, 'disk', jsonb_build_array('gone/{n}-' || n), 1 FROM generate_series(1, {MARKS}) n"
                )
            rig.later(10_801)
            context = multiprocessing.get_context("spawn")
            running, stop = context.Event(), context.Event()
            process = context.Process(target=rounds, args=(url, running, stop))
            process.start()
            ratios, idle, busy = [], [], []
            for pair in range(PAIRS):
                running.clear()
                time.sleep(0.5)
                idle.append(commits(url, 2 * pair))
                running.set()
                time.sleep(0.5)
                busy.append(commits(url, 2 * pair + 1))
                ratios.append(busy[-1] / idle[-1])
                print(f"pair {pair}: {idle[-1] * 1000:.2f} ms alone, {busy[-1] * 1000:.2f} ms, ratio {ratios[-1]:.2f}")
            claimed = rig.count("mark_history")
            print(
                f"owner's median commit with rounds running: {statistics.median(ratios):.2f} x without ({PAIRS} pairs)"
            )
            print(f"meanwhile rounds removed {claimed:,} marks")
            stop.set()
            process.terminate()
            process.join()
        finally:
            cluster.stop()


if __name__ == "__main__":
    main()
