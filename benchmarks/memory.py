"""Delete 1,000,000 marks of one key each by threads and on Spark: the memory of each process must not grow meanwhile.

The store answers at once. Memory of a process at 10 % of the marks is compared with the most it has from then on; that
of Java is within its heap, which it fills before it collects garbage.
"""

import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import contenders
from benchmarks.contenders import Job, mark_by_sql
from benchmarks.heavy import BOTH, REQUESTS, ROOT, stub
from benchmarks.results import Figure, Result, at_most
from benchmarks.store import log_in
from tests.servers.postgres import Cluster

MARKS = 1_000_000
MOST_MIB = 64.0
WATCH_SECONDS = 1.0
JAVA = "java"
Growth = dict[int, tuple[str, int, int]]
"""Process → its name, its bytes at 10 % of the marks, and the most since then."""


def run(marks: int = MARKS) -> Result:
    """Measure both."""
    log_in()
    cluster = Cluster()
    figures: list[Figure] = []
    runs: dict[str, Any] = {}
    try:
        for name in BOTH:
            growth, seconds = _watch(cluster, name, marks)
            python = [most - first for program, first, most in growth.values() if program != JAVA]
            highest = max(most for program, _, most in growth.values() if program != JAVA)
            figures += [
                at_most(
                    f"{name}: growth of a Python process from 10 % to the end", max(python) / 2**20, MOST_MIB, "MiB", 0
                ),
                Figure(
                    f"{name}: largest Python process, marks per second",
                    f"{highest / 2**20:.0f} MiB, {marks / seconds:,.0f}",
                ),
            ]
            figures += [
                Figure(f"{name}: Java at 10 % and at most", f"{first / 2**20:.0f}, {most / 2**20:.0f} MiB")
                for program, first, most in growth.values()
                if program == JAVA
            ]
            runs[name] = {"seconds": seconds, "growth": growth}
    finally:
        cluster.stop()
    return Result("memory", {"marks": f"{marks:,}", "database": "PostgreSQL with fsync"}, figures, runs)


def _watch(cluster: Cluster, name: str, marks: int) -> tuple[Growth, float]:
    """Let one contender delete, and watch its processes; return their growth and the seconds."""
    database = cluster.new_database(contenders.DEPLOYMENT)
    try:
        with stub() as endpoint:
            contenders.prepare(database, endpoint, 0)
            mark_by_sql(database, marks)
            job = Job(name, endpoint, marks, REQUESTS, database, 1)
            command = [sys.executable, "-m", "benchmarks.contenders", job.argument()]
            growth: Growth = {}
            began = time.monotonic()
            with (
                psycopg.connect(database.replace("+psycopg", ""), autocommit=True) as c,
                subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as process,
            ):
                while process.poll() is None:
                    time.sleep(WATCH_SECONDS)
                    row = c.execute("SELECT coalesce(sum(removed), 0) FROM sexton.tally").fetchone()
                    if row and row[0] >= marks // 10:
                        _look(growth, process.pid)
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, command)
            return growth, time.monotonic() - began
    finally:
        cluster.drop_database(database)


def _look(growth: Growth, top: int) -> None:
    """Note the memory of a process and of all below it."""
    processes = _processes()
    for pid, (name, _, resident) in processes.items():
        if _is_below(pid, top, processes):
            first = growth[pid][1] if pid in growth else resident
            most = max(growth[pid][2], resident) if pid in growth else resident
            growth[pid] = (name, first, most)


def _is_below(pid: int, top: int, processes: Mapping[int, tuple[str, int, int]]) -> bool:
    while pid != top:
        if pid not in processes:
            return False
        pid = processes[pid][1]
    return True


def _processes() -> dict[int, tuple[str, int, int]]:
    """Return process → its name, its parent and its resident bytes."""
    found = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile
            name, rest = file.read_text().split("(", 1)[1].rsplit(")", 1)
            fields = rest.split()
            found[int(file.parent.name)] = (name, int(fields[1]), int(fields[21]) * 4_096)
    return found
