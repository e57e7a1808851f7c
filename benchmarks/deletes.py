"""Delete small objects: the product with all its safety, the same without, and its peers, in turns over one store.

Goals: at least 0.95 of what the best peer does; safety costs at most a tenth.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from benchmarks import contenders
from benchmarks.contenders import Job
from benchmarks.results import Figure, Result, at_least, at_most
from benchmarks.scratch import Scratch, scratch
from benchmarks.store import OBJECT_BYTES, OWN, FilledStore, remote
from config.settings import EngineSettings
from sexton.runtime.embedded.child import find_binary
from tests.servers.postgres import Cluster

THREADS = (2, 4, 8, 16, 32)
CHECKERS = (8, 16, 32, 64)
"""rclone deletes with as many threads as it has checkers."""
TUNED_WITH, TUNED_FROM = 5, 10_000
"""Peers are tuned on one part in so many of the objects."""
TRIES = 1
PEERS = ("boto3", "rclone")
SHARE_OF_BEST, MOST_OVERHEAD = 0.95, 10.0


class Arena:
    """A filled store, and a database that marks all of it."""

    def __init__(self, scratch: Scratch, cluster: Cluster, name: str, objects: int) -> None:
        self.store = FilledStore(scratch.memory / name, objects)
        self.store_cpu: list[float] = []
        """CPU seconds of the store in each run: they differ for the same work where the machine's speed does."""
        self._cluster, self._marked = cluster, cluster.create_database()

    def fill(self) -> float:
        """Fill it; return the seconds."""
        began = time.perf_counter()
        self.store.fill(lambda endpoint: contenders.prepare(self._marked, endpoint, self.store.marks))
        return time.perf_counter() - began

    def seconds(self, name: str, threads: int) -> float:
        """Let one contender delete everything; return its seconds."""
        used = self._cluster.create_database(self._marked)
        with self.store.full() as endpoint:
            job, before = Job(name, endpoint, self.store.marks, threads, used), self.store.cpu()
            took = _rclone(job) if name == "rclone" else _python(job)
            self.store_cpu.append(self.store.cpu() - before)
        self._cluster.drop_database(used)
        return took


def _python(job: Job) -> float:
    command = [sys.executable, "-m", "benchmarks.contenders", job.argument()]
    ran = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    return float(json.loads(ran.stdout)["seconds"])


def _rclone(job: Job) -> float:
    """Time the whole process, its start included: about 0.1 s."""
    threads = [f"--checkers={job.threads}", f"--transfers={job.threads}", "--fast-list"]
    once = ["--retries=1", "--low-level-retries=1", "--config=", f"--exclude=/{OWN}**"]
    began = time.perf_counter()
    subprocess.run([find_binary("rclone"), "delete", remote(job.endpoint), *threads, *once], check=True)
    return time.perf_counter() - began


def _best(arena: Arena, name: str, choices: Sequence[int]) -> tuple[int, dict[int, float]]:
    """Return the thread count with which a peer is quickest, and the seconds of each."""
    took = {n: min(arena.seconds(name, n) for _ in range(TRIES)) for n in choices}
    return min(took, key=lambda n: took[n]), took


def run(objects: int, pairs: int, *, peers: bool = True) -> Result:
    """Measure; without ``peers`` only what safety costs."""
    with scratch() as place, ExitStack() as stack:
        cluster = Cluster()
        stack.callback(cluster.stop)
        threads = {"direct": EngineSettings.requests_at_once, "unsafe": EngineSettings.requests_at_once}
        tuned: dict[str, dict[int, float]] = {}
        if peers:
            small = Arena(place, cluster, "small", max(100, objects // TUNED_WITH // 100 * 100))
            print(f"a store of {small.store.objects:,} objects to tune the peers on: {small.fill():.0f} s", flush=True)
            for name, counts in (("boto3", THREADS), ("rclone", CHECKERS)):
                choices = counts if objects >= TUNED_FROM else counts[2:3]  # a small run only shows that it works
                threads[name], tuned[name] = _best(small, name, choices)
                each = ", ".join(f"{n}: {s:.1f} s" for n, s in tuned[name].items())
                print(f"{name} is quickest with {threads[name]} threads ({each})", flush=True)
        arena = Arena(place, cluster, "full", objects)
        print(f"a store of {objects:,} objects: {arena.fill():.0f} s", flush=True)
        taken: dict[str, list[float]] = {name: [] for name in threads}
        cpu: dict[str, list[float]] = {name: [] for name in threads}
        for pair in range(pairs):
            turn = pair % len(threads)
            for name in [*threads][turn:] + [*threads][:turn]:
                taken[name].append(arena.seconds(name, threads[name]))
                cpu[name].append(arena.store_cpu[-1])
            each = (f"{n} {s[-1]:.2f} s ({cpu[n][-1]:.1f})" for n, s in taken.items())
            print(f"pair {pair + 1}: {', '.join(each)} (CPU of the store)", flush=True)
    result = _result(objects, pairs, threads, taken, tuned)
    return replace(result, runs={**result.runs, "store_cpu_seconds": cpu})


def _result(
    objects: int,
    pairs: int,
    threads: dict[str, int],
    taken: dict[str, list[float]],
    tuned: dict[str, dict[int, float]],
) -> Result:
    overhead = statistics.median(100 * (1 - u / d) for u, d in zip(taken["unsafe"], taken["direct"], strict=True))
    figures = [
        Figure(f"{name}, {threads[name]} threads", f"{objects / statistics.median(s):,.0f} objects/s")
        for name, s in taken.items()
    ]
    if tuned:
        # By its median: the better of two in each pair would be the luckier one, on a machine that changes its speed.
        best = min(PEERS, key=lambda name: statistics.median(taken[name]))
        ratio = statistics.median(b / d for b, d in zip(taken[best], taken["direct"], strict=True))
        figures.append(at_least(f"direct path against the best peer ({best}), median", ratio, SHARE_OF_BEST))
    figures.append(at_most("safety: 1 - unsafe / direct time, median", overhead, MOST_OVERHEAD, "%", 1))
    return Result(
        "delete" if tuned else "overhead",
        {"objects": f"{objects:,}", "bytes each": OBJECT_BYTES, "pairs": pairs, "database": "PostgreSQL, fsync"},
        figures,
        {"seconds": taken, "threads": threads, "tuning": tuned},
    )
