"""Check 100,000,000 listed objects against as many records on one machine, with one Spark worker killed on the way.

A real check: Temporal, a control worker, Spark workers, records in PostgreSQL, and a store that lists from memory. One
object in 10,000 has no record, and one record in 10,000 has no object. The time is that of the check, with the kill.
`python -m benchmarks.record PORT KEYS` serves the store.
"""

import asyncio
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import psycopg
from sqlalchemy import select
from temporalio.client import Client

from benchmarks import contenders
from benchmarks.contenders import DEPLOYMENT, INSTANCE, VAULT, worker_environment
from benchmarks.heavy import ROOT, served
from benchmarks.results import Figure, Result, at_most
from benchmarks.scratch import scratch
from benchmarks.store import log_in
from benchmarks.stub_bucket import Bucket, serve
from benchmarks.stub_store import FOLDERS, Pages
from config.settings import Settings
from sexton.check.model import CheckReport, CheckRequest
from sexton.database.engine import Database
from sexton.interfaces.worker import control
from sexton.operators.registry.store import Registry
from sexton.runtime.worker_rows import WorkerStore
from tests.servers.postgres import Cluster, live_url
from tests.servers.temporal import DevServer, start_local
from workflows import ids

ROWS, FAULTS = 100_000_000, 10_000
MOST_SECONDS, MOST_GIB, MOST_DISK_GB = 1_800.0, 6.0, 30.0
MEMORY = "2g"
CORES = 2
WATCH_SECONDS = 2.0
KEY = "'data/' || to_hex(n * {folders} / {rows}) || '/' || lpad(n::text, 12, '0') || '_{middle}_0123456.dat'"


class _Use(NamedTuple):
    """The most bytes that the Spark worker and its processes had in memory, and on disk."""

    memory: int
    disk: int


class ListedBucket(Bucket):
    """A bucket of very many objects, which are listed and nothing else."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self._pages = Pages(keys)

    def of_bucket(self, asked: dict[str, str]) -> tuple[int, bytes, str]:
        """Return the answer to a listing: folders, or a page of objects."""
        prefix = asked.get("prefix", "")
        if "list-type" not in asked or prefix.startswith("_sexton") or (prefix and not prefix.startswith("data")):
            return super().of_bucket(asked)
        if asked.get("delimiter"):
            names = {"": ["data/"], "data/": [f"data/{n:x}/" for n in range(FOLDERS)]}.get(prefix, [])
            folders = "".join(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>" for name in names)
            return 200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{folders}</ListBucketResult>".encode(), ""
        token, after = asked.get("continuation-token"), asked.get("start-after", "")
        first = int(unquote(token)) if token else self._pages.first_after(after) if after else 0
        return 200, self._pages.page(prefix, first, int(asked.get("max-keys", "1000"))), ""


def run(rows: int = ROWS) -> Result:
    """Measure one check."""
    log_in()
    cluster = Cluster()
    try:
        database = cluster.new_database(contenders.DEPLOYMENT)
        with served("benchmarks.record", rows) as endpoint, scratch() as place:
            contenders.prepare(database, endpoint, 0)
            write_records(database, rows)
            report, seconds, use = asyncio.run(_check(database, endpoint, place.disk))
    finally:
        cluster.stop()
    each = rows // FAULTS
    if not report.whole or report.confirmed.get("LOST") != each or report.found.get("ORPHAN") != each:
        raise AssertionError(f"the check found something else: {report}")
    figures = [
        at_most("seconds of the check, with one kill -9", seconds, MOST_SECONDS, "s", 0),
        at_most("peak memory of the Spark worker and its processes", use.memory / 2**30, MOST_GIB, "GiB", 1),
        at_most("peak of its scratch on disk", use.disk / 1e9, MOST_DISK_GB, "GB", 1),
        Figure("objects without record, records without object", f"{each:,}, {each:,}: all found"),
    ]
    sizes = {"objects and records": f"{rows:,}", "database": "PostgreSQL with fsync", "Spark's cores": CORES}
    return Result("record", sizes, figures, {"seconds": seconds, "use": use._asdict()})


def write_records(url: str, rows: int) -> None:
    """Write a table with a record of every object but one in ``FAULTS``, and as many of objects that do not exist."""
    key = KEY.format(folders=FOLDERS, rows=rows, middle="0123456789abcdef" * 4)
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as c:
        c.execute("CREATE TABLE file (id bigint, key text, bytes bigint)")
        c.execute(
            f"INSERT INTO file SELECT n, {key}, n % 10000 FROM generate_series(0::bigint, {rows} - 1) n "
            f"WHERE n % {FAULTS} <> 1"
        )
        c.execute(
            f"INSERT INTO file SELECT {rows} + n, replace({key}, '.dat', '_lost.dat'), 10 "
            f"FROM generate_series(0::bigint, {rows} - 1, {FAULTS}) n"
        )
        c.execute('CREATE INDEX ON file (key COLLATE "C")')
        c.execute("CREATE INDEX ON file ((id::text))")
        c.execute(
            f"CREATE VIEW sexton_live AS SELECT text '{INSTANCE}' AS instance, text 'file' AS kind, id::text AS id, "
            f"text '{VAULT}' AS vault, key, bytes FROM file"
        )
        c.execute("VACUUM ANALYZE file")
    db = Database.open(url, live_url=live_url(url))
    Registry(db).set_key_pattern(INSTANCE, ".*dat")
    Registry(db).set_live_view(INSTANCE, "public.sexton_live")
    db.close()


async def _check(database: str, endpoint: str, home: Path) -> tuple[CheckReport, float, _Use]:
    """Check once; kill the Spark worker when half of the parts are listed, and start another one."""
    environment = await start_local()
    db = Database.open(database, live_url=live_url(database))
    try:
        server = DevServer(environment)
        settings = Settings(deployment=DEPLOYMENT, database_url=database, s3={"endpoint_url": endpoint})
        client = await server.connect()
        with _spark_workers(database, endpoint, server.address, home) as start, _watched(home) as use:
            first = start()
            while not WorkerStore(db).count_slots()[0]:
                if first.poll() is not None:
                    raise AssertionError((home / "spark-worker.log").read_text()[-500:])
                await asyncio.sleep(0.2)
            async with await control.build(client, settings, db):
                began = time.perf_counter()
                checking = asyncio.create_task(_report(client))
                while not _is_half_listed(db) and not checking.done():
                    await asyncio.sleep(0.2)
                print(f"{time.perf_counter() - began:.0f} s: half is listed, the worker is killed", flush=True)
                first.kill()
                start()
                report = await checking
                seconds = time.perf_counter() - began
            return report, seconds, use()
    finally:
        db.close()
        await environment.shutdown()


async def _report(client: Client) -> CheckReport:
    """Run the check and return its report."""
    report: CheckReport = await client.execute_workflow(
        ids.CHECK,
        CheckRequest(instance=INSTANCE, requested_by="bench"),
        id=ids.check(DEPLOYMENT, INSTANCE),
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=CheckReport,
    )
    return report


def _is_half_listed(db: Database) -> bool:
    """Return whether a pass over the listing is stored: there are two."""
    t = db.t.check_run
    with db.read() as c:
        return c.execute(select(t.c.id).where(t.c.progress.is_not(None)).limit(1)).first() is not None


@contextmanager
def _spark_workers(
    database: str, endpoint: str, temporal: str, home: Path
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Yield a function that starts a Spark worker, all of one machine: they share their home and its scratch."""
    environment = worker_environment(home, database, endpoint, temporal) | {
        "SEXTON_CONFIG": str(home / "sexton.toml"),
        "SEXTON_LIVE_DATABASE_URL": live_url(database),
        "SEXTON_SPARK__REMOTE": f"local[{CORES}]",
    }
    (home / "sexton.toml").write_text(f'[spark.conf]\n"spark.driver.memory" = "{MEMORY}"\n')
    started: list[subprocess.Popen[bytes]] = []
    with (home / "spark-worker.log").open("w") as log:

        def start() -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "sexton", "worker", "run", "--role", "spark"]
            started.append(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log))
            return started[-1]

        try:
            yield start
        finally:
            for process in started:
                process.terminate()
                process.wait()


@contextmanager
def _watched(home: Path) -> Iterator[Callable[[], _Use]]:
    """Look every few seconds at what Spark workers use; yield a function that returns the most so far."""
    most = [_Use(0, 0)]
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(WATCH_SECONDS):
            disk = 0
            for file in (home / "spark").rglob("*"):
                with suppress(OSError):  # it was removed meanwhile
                    disk += file.lstat().st_blocks * 512
            most[0] = _Use(max(most[0].memory, _memory_of(str(home))), max(most[0].disk, disk))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lambda: most[0]
    finally:
        ended.set()
        thread.join()


def _memory_of(home: str) -> int:
    """Return the bytes of memory of all processes whose environment names a home; shared pages are counted once."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile
            if f"SEXTON_HOME={home}".encode() in (process / "environ").read_bytes().split(b"\0"):
                own = re.search(r"(?m)^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text())
                total += int(own[1]) * 1024 if own else 0
    return total


if __name__ == "__main__":
    serve(int(sys.argv[1]), bucket=ListedBucket(int(sys.argv[2])))
