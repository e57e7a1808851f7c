"""Check 1,000,000 listed objects against as many records in one process, beside DuckDB's anti-joins of the same rows.

A whole check but for Temporal: it lists a store that answers from memory, reads the owner's view in PostgreSQL,
compares, looks at each loss again, and concludes. DuckDB reads two Parquet files that hold the same names.
`python -m benchmarks.check DATABASE ENDPOINT` checks once, and prints seconds, CPU seconds and peak memory as JSON.
"""

import json
import re
import statistics
import subprocess
import sys
import time
import uuid
from pathlib import Path

from benchmarks import contenders, reconcile
from benchmarks.contenders import DEPLOYMENT, INSTANCE
from benchmarks.heavy import ROOT, served
from benchmarks.record import FAULTS, write_records
from benchmarks.results import Figure, Result, at_most
from benchmarks.scratch import scratch
from benchmarks.store import log_in
from config.settings import EngineSettings
from sexton.check.model import CheckRequest, CheckSettings, ConcludeOrder
from sexton.database.engine import Database
from sexton.runtime.engine import Engine
from tests.servers.postgres import Cluster, live_url

ROWS, PAIRS = 1_000_000, 5
MOST = 4.0


def run(rows: int = ROWS, pairs: int = PAIRS) -> Result:
    """Measure, in turns."""
    log_in()
    cluster = Cluster()
    took: dict[str, list[float]] = {"check": [], "duckdb": [], "cpu": [], "memory": []}
    try:
        database = cluster.new_database(DEPLOYMENT)
        with served("benchmarks.record", rows) as endpoint, scratch() as place:
            contenders.prepare(database, endpoint, 0)
            write_records(database, rows)
            reconcile.write(place.disk, rows)
            for _ in range(pairs):
                for name, value in _check(database, endpoint, rows // FAULTS).items():
                    took[name].append(value)
                took["duckdb"].append(_duckdb(place.disk, rows // FAULTS))
    finally:
        cluster.stop()
    ratios = [c / d for c, d in zip(took["check"], took["duckdb"], strict=True)]
    middle = {name: statistics.median(values) for name, values in took.items()}
    figures = [
        at_most("seconds of a check in one process, against DuckDB", statistics.median(ratios), MOST, "x"),
        Figure("seconds: check, its CPU, DuckDB", ", ".join(f"{middle[n]:.2f}" for n in ("check", "cpu", "duckdb"))),
        Figure("peak memory of the process, MiB", f"{middle['memory']:.0f}"),
    ]
    sizes = {"objects and records": f"{rows:,}", "pairs": pairs, "database": "PostgreSQL with fsync"}
    return Result("check", sizes, figures, {"seconds": took})


def _duckdb(folder: Path, faults: int) -> float:
    """Return the seconds in which DuckDB finds what only one side has."""
    began = time.perf_counter()
    found = reconcile.by_duckdb(folder)
    seconds = time.perf_counter() - began
    if found != (faults, faults):
        raise AssertionError(f"DuckDB found {found}, not {faults}")
    return seconds


def _check(database: str, endpoint: str, faults: int) -> dict[str, float]:
    """Return the seconds, the CPU seconds and the peak memory of one check, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.check", database, endpoint]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    seen: dict[str, float] = json.loads(output)
    if (seen.pop("lost"), seen.pop("orphans"), seen.pop("whole")) != (faults, faults, True):
        raise AssertionError(f"the check found something else: {output}")
    return seen


def main(database: str, endpoint: str) -> None:
    """Check once."""
    settings = EngineSettings(DEPLOYMENT, endpoint, check=CheckSettings(heavy_objects=1 << 60))
    db = Database.open(database, live_url=live_url(database))
    engine = Engine(db, settings)
    began, cpu = time.perf_counter(), time.process_time()
    opened = engine.checker.begin(CheckRequest(instance=INSTANCE), uuid.uuid4().hex)
    evidence = engine.checker.compare(engine.in_process_compare, opened.order, lambda: None)
    evidence = engine.checker.check_again(opened.order, evidence, lambda: None)
    order = ConcludeOrder(instance=INSTANCE, run=opened.order.run, evidence=evidence)
    report = engine.checker.conclude(order)
    seen = {
        "check": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "memory": int(re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) / 1024,
        "lost": report.confirmed.get("LOST"),
        "orphans": report.found.get("ORPHAN"),
        "whole": report.whole,
    }
    db.close()
    print(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
