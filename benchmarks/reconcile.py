"""Reconcile: objects against records, both ways, on Spark beside DuckDB's anti-joins of the same Parquet files.

Goal: within three times DuckDB's time, on as many cores; memory of Spark's processes bounded. One object in 10,000 is
lost and one an orphan, so that both must say the same.
"""

import re
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.results import Figure, Result, at_most
from benchmarks.scratch import scratch
from sexton.runtime.spark import reconcile
from sexton.runtime.spark.session import Sessions

ROWS, PAIRS = 10_000_000, 5
MOST = 3.0
FAULTS = 10_000
"""One of so many is lost, and one is an orphan."""
FILES = 8
MEMORY = "3g"


def run(rows: int = ROWS, pairs: int = PAIRS) -> Result:
    """Measure, in turns."""
    with scratch() as scratches, ExitStack() as stack:
        folder = scratches.disk
        write(folder, rows)
        sessions = Sessions("local[2]", {"spark.driver.memory": MEMORY, "spark.sql.shuffle.partitions": "8"}, folder)
        try:
            session = stack.enter_context(sessions.of("benchmark"))

            def by_spark() -> tuple[int, int]:
                objects = session.read.parquet(str(folder / "objects"))
                known = session.read.parquet(str(folder / "records"))
                with reconcile.narrowed(objects, known.where("not prefix"), rows) as (some, exact):
                    lost = reconcile.forward(some, exact, ["hot"])
                    orphans = reconcile.inverted(some, exact, known.where("prefix"))
                    return lost.count(), orphans.count()

            took: dict[str, list[float]] = {"spark": [], "duckdb": []}
            expected = (rows // FAULTS, rows // FAULTS)
            for pair in range(-2, pairs):  # the first two are for caches, and for what Java compiles
                both: dict[str, Callable[[], tuple[int, int]]] = {
                    "spark": by_spark,
                    "duckdb": partial(by_duckdb, folder),
                }
                for name in sorted(both, reverse=bool(pair % 2)):
                    began = time.monotonic()
                    if (found := both[name]()) != expected:
                        raise AssertionError(f"{name} found {found}, not {expected}")
                    if pair >= 0:
                        took[name].append(time.monotonic() - began)
            peak = _peak(sessions)
        finally:
            sessions.close()
    ratios = [s / d for s, d in zip(took["spark"], took["duckdb"], strict=True)]
    figures = [
        at_most("seconds of Spark, against DuckDB", statistics.median(ratios), MOST, "x"),
        Figure("seconds: Spark, DuckDB", ", ".join(f"{statistics.median(t):.1f}" for t in took.values())),
        Figure("peak memory of Spark's processes, GiB", f"{peak / 2**30:.1f}"),
    ]
    return Result("reconcile", {"objects and records": f"{rows:,}", "pairs": pairs}, figures, {"seconds": took})


def by_duckdb(folder: Path) -> tuple[int, int]:
    """Return how many records have no object, and how many objects no record."""
    import duckdb

    with duckdb.connect(config={"threads": 2, "memory_limit": MEMORY, "temp_directory": str(folder)}) as db:
        o, k = (f"read_parquet('{folder}/{name}/*.parquet')" for name in ("objects", "records"))
        lost = f"SELECT count(*) FROM {k} k ANTI JOIN {o} o USING (vault, name)"
        orphans = f"SELECT count(*) FROM {o} o ANTI JOIN {k} k USING (vault, name)"
        return db.execute(lost).fetchall()[0][0], db.execute(orphans).fetchall()[0][0]


def _peak(sessions: Sessions) -> int:
    """Return the peak bytes of Spark's server and of those of its Python workers that still live."""
    peak = 0
    for file in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError):  # it ended meanwhile
            session = int((file.parent / "stat").read_text().rpartition(")")[2].split()[3])
            if session == sessions.server_pid:
                high = re.search(r"VmHWM:\s+(\d+) kB", file.read_text())
                peak += int(high[1]) * 1024 if high else 0  # a process that just ended has none
    return peak


def write(folder: Path, rows: int) -> None:
    """Write both sides: each lacks every ``FAULTS``-th row of the other."""
    for side, lacks in (("objects", 0), ("records", 1)):
        (folder / side).mkdir()
        for n in range(FILES):
            numbers = range(rows * n // FILES, rows * (n + 1) // FILES)
            keys = [f"data/tablet-{i % 4_096:04}/rowset-{i:012x}_0.dat" for i in numbers if i % FAULTS != lacks]
            columns = {
                "vault": pa.repeat(pa.scalar("hot"), len(keys)),
                "name": keys,
                "key": keys,
                "bytes": pa.repeat(pa.scalar(10), len(keys)),
            }
            if side == "objects":
                columns |= {name: pa.repeat(pa.scalar("e"), len(keys)) for name in ("etag", "written")}
            else:
                columns |= {
                    "live": pa.repeat(pa.scalar(True), len(keys)),
                    "record": pa.repeat(pa.scalar(""), len(keys)),
                }
                columns |= {"prefix": pa.repeat(pa.scalar(False), len(keys))}
            pq.write_table(
                pa.table(columns), folder / side / f"{n}.parquet", compression="snappy"
            )  # as Spark writes scratch
