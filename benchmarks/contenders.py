"""Delete as a contender, alone in a process of its own.

The contenders: the product with threads or on Spark, the same without its safety, plain PySpark and plain boto3.

`python -m benchmarks.contenders '{"name": …}'` deletes what is in the store and prints its seconds and CPU seconds as
JSON. The clock starts when everything is imported and ends when all is deleted and settled.
"""

import atexit
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from sqlalchemy import delete

from benchmarks.store import BUCKET, KEYS_A_MARK, client, mark_keys
from config.settings import EngineSettings
from sexton import contract
from sexton.database import schema
from sexton.database.engine import Database
from sexton.kernel.process import search_cycles_rarely
from sexton.marks.model import CHUNK_MARKS
from sexton.marks.sql.rows import refs_in
from sexton.operators.registry.add_remove import add_vault
from sexton.operators.registry.store import Registry
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import AdoptOrder, Cursor
from sexton.recycle.pipeline.sql.due_marks import DueMarkStore
from sexton.recycle.planning.model import Policy
from sexton.recycle.planning.policy import cutoff, policy
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.recycler import Recycler
from sexton.runtime.engine import Engine
from sexton.storage.model import PAGE_KEYS, KeyOutcome, VaultSpec
from sexton.storage.port import UNREACHABLE, VaultFault
from sexton.storage.s3.vault import S3Vault
from tests.support.kept import kept_texts

if TYPE_CHECKING:
    from sexton.runtime.spark.deletion import Work
    from sexton.runtime.spark.session import Sessions

DEPLOYMENT, INSTANCE, KIND, VAULT = "test-bench", "shop", "dropped", "cold"
RUN = "bench"
RETENTION_SECONDS, GRACE_SECONDS = 10_800, 3_600
POLICY = policy(
    {KIND: RETENTION_SECONDS}, GRACE_SECONDS, unlimited=(), max_delete_objects=20_000_000, max_delete_fraction=0.1
)


CORES, CONNECTIONS = 2, 16
OTHERS: list[Callable[[], float]] = []
"""What tells the CPU seconds of processes that work for this one."""
MARKED_AT_ONCE = 1_000_000
UNSAFE_PAGE = 500
"""Keys a request: with 1,000 in each of 32 requests this store needs nearly the 10 s after which a vault gives up."""


@dataclass(frozen=True)
class Job:
    """The work of one contender; ``database``: the URL of one with due marks, where it needs one."""

    name: str
    endpoint: str
    marks: int
    threads: int = EngineSettings.requests_at_once
    database: str = ""
    keys: int = KEYS_A_MARK
    """Keys of each mark."""

    def argument(self) -> str:
        """Return it for the command line."""
        return json.dumps(asdict(self))


def prepare(url: str, endpoint: str, marks: int) -> None:
    """Create a database in which every object of the store belongs to a due mark, and the vault of the store."""
    schema.init(url, DEPLOYMENT)
    db = Database.open(url)
    registry = Registry(db)
    registry.add_instance(INSTANCE)
    registry.enable(INSTANCE)
    add_vault(registry, VaultSpec(instance=INSTANCE, name=VAULT, kind="s3", location=BUCKET), DEPLOYMENT, endpoint)
    db.close()
    mark(url, marks)


def mark(url: str, marks: int, keys: int = KEYS_A_MARK) -> None:
    """Mark the first objects of a filled store, so many keys per mark, and let the retention of the marks end."""
    db = Database.open(url)
    names = chain.from_iterable(map(mark_keys, count()))
    with db.write() as c:
        new = (contract.NewMark(id=f"m-{n:08}", vault=VAULT, keys=tuple(islice(names, keys))) for n in range(marks))
        contract.mark(c, INSTANCE, KIND, new)
    schema.move_clock(db, RETENTION_SECONDS + 1)
    db.close()


def mark_by_sql(url: str, marks: int) -> None:
    """Mark one key each without the contract, which is slower, and let the retention of the marks end."""
    db = Database.open(url)
    insert_marks(db, 0, marks - 1)
    schema.move_clock(db, RETENTION_SECONDS + 1)
    db.close()


def insert_marks(db: Database, first: int, last: int) -> None:
    """Insert marks with these numbers, each of one key, a million at a time."""
    for start in range(first, last + 1, MARKED_AT_ONCE):
        with db.write() as c:
            c.exec_driver_sql(
                "INSERT INTO sexton.mark (instance, kind, id, vault, keys, bytes) "
                f"SELECT '{INSTANCE}', '{KIND}', 'm-' || n, '{VAULT}', jsonb_build_array('data/' || n), 1 "
                f"FROM generate_series({start}, {min(last, start + MARKED_AT_ONCE - 1)}) n"
            )


def worker_environment(home: Path, database: str, endpoint: str, temporal: str) -> dict[str, str]:
    """Return the environment of a worker process: its home, database, store and Temporal server."""
    return os.environ | {
        "SEXTON_HOME": str(home),
        "SEXTON_DEPLOYMENT": DEPLOYMENT,
        "SEXTON_DATABASE_URL": database,
        "SEXTON_S3__ENDPOINT_URL": endpoint,
        "SEXTON_TEMPORAL__ADDRESS": temporal,
    }


def direct(job: Job) -> Callable[[], None]:
    """A whole round, its files deleted by threads."""
    engine = Engine(Database.open(job.database), EngineSettings(DEPLOYMENT, job.endpoint, requests_at_once=job.threads))
    return partial(_round, job, engine, engine.recycler(engine.deleter))


def spark(job: Job) -> Callable[[], None]:
    """A whole round, its files deleted by executors on ``CORES`` cores, as many requests at once."""
    from sexton.runtime.spark.deleter import SparkEngine
    from sexton.runtime.spark.deletion import Work
    from sexton.runtime.spark.locations import ConnectionTarget

    engine = Engine(Database.open(job.database), EngineSettings(DEPLOYMENT, job.endpoint))
    home, sessions = _sessions()
    where = ConnectionTarget(deployment=DEPLOYMENT, database_url=job.database, endpoint_url=job.endpoint)
    work = Work(where=where, requests=job.threads // CORES)
    warm(sessions, _open_vault, work)
    heavy = SparkEngine(engine, sessions, work, connections=CONNECTIONS, scratch=home)
    return partial(_round, job, engine, heavy.recycler)


def _open_vault(work: "Work") -> object:
    """Open what a task of the product opens, in the process of an executor."""
    from sexton.runtime.spark.deletion import engine_of

    return engine_of(work).stores.vaults.get(INSTANCE, VAULT)


def pyspark(job: Job) -> Callable[[], None]:
    """A plain PySpark job: each of its partitions deletes its keys with boto3, 1,000 keys a request, quiet."""
    _, sessions = _sessions()
    warm(sessions, client, job.endpoint)
    keys, endpoint = job.keys, job.endpoint

    def delete_all(rows: Iterator[Any]) -> None:
        s3 = client(endpoint)
        names = chain.from_iterable(mark_keys(row.id, keys) for row in rows)
        while page := [{"Key": name} for name in islice(names, PAGE_KEYS)]:
            if s3.delete_objects(Bucket=BUCKET, Delete={"Objects": page, "Quiet": True}).get("Errors"):
                raise AssertionError("the store refused a key")

    def run() -> None:
        with sessions.of("plain") as session:
            session.range(0, job.marks, 1, CORES).foreachPartition(delete_all)

    return run


def _sessions() -> tuple[str, "Sessions"]:
    """Return a folder, and sessions on ``CORES`` cores of this machine, whose CPU seconds count."""
    from sexton.runtime.spark.session import Sessions

    home = tempfile.mkdtemp(prefix="sexton-bench-")
    sessions = Sessions(f"local[{CORES}]", {"spark.driver.memory": "1g"}, Path(home))
    atexit.register(shutil.rmtree, home)
    atexit.register(sessions.close)
    OTHERS.append(lambda: cpu_of_session(sessions.server_pid or 0))
    return home, sessions


def warm(sessions: "Sessions", make: Callable[[Any], object], argument: object) -> None:
    """Let Java compile, and Python workers put together, what is timed later: a Spark worker lives long."""
    from sexton.runtime.spark.deletion import RESULT

    def importing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(0.2)  # so that one worker does not take both parts
        for batch in batches:
            name = type(make(argument)).__name__
            yield pa.RecordBatch.from_pydict({"result": [name] * batch.num_rows}, schema=RESULT)

    with sessions.of("warm") as session:
        for _ in range(20):
            session.range(0, CORES, 1, CORES).mapInArrow(importing, "result string").collect()


def cpu_of_session(leader: int) -> float:
    """Return the CPU seconds of all processes of a session so far, with those of its processes that ended.

    Of the session and not of the process group: Spark's Python workers have one of their own.
    """
    used = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it ended meanwhile; its parent has its seconds
            told = file.read_text().rpartition(")")[2].split()
            if int(told[3]) == leader:
                used += sum(map(int, told[11:15]))
    return used / os.sysconf("SC_CLK_TCK")


def _round(job: Job, engine: Engine, recycler: Recycler) -> None:
    report = whole_round(engine, recycler, POLICY)
    if (report.removed, report.deleted, kept_texts(report)) != (job.marks, job.marks * job.keys, {}):
        raise AssertionError(f"the round did not do all: {report}")


def whole_round(engine: Engine, recycler: Recycler, policy: Policy) -> RoundReport:
    """Run a round as a worker does, from its lease to its report: the workflow's own steps, without Temporal."""
    rounds, books = engine.rounds, Ledger()
    opened = rounds.open(INSTANCE, RUN, None, policy)
    recycler.announce(opened, _alive)
    order = AdoptOrder(
        round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE_SECONDS, cutoffs=opened.cutoffs
    )
    books.add_adoption(recycler.adopt(order, 1, _alive))
    plan = rounds.plan(INSTANCE, policy, "bench")
    books.begin(plan)
    for kind in plan.kinds:
        while shards := books.unfinished_shards(kind.kind):
            order = books.next_range(opened, plan, kind, shards[0])
            books.add_range(order, recycler.recycle(order, 1, _alive))
    return rounds.close(books.close_order(opened, plan.id, plan, "SUCCEEDED", ""))


def unsafe(job: Job) -> None:
    """What is left without claim, guard, holders, proofs, stored files, pace and audit: due marks, pages, rows."""
    db = Database.open(job.database)
    vault, marks = S3Vault(Registry(db).vault(INSTANCE, VAULT), job.endpoint), DueMarkStore(db)
    with db.read() as c:
        due_by = cutoff(KIND, POLICY, db.now(c)) or 0
    after = Cursor()
    with ThreadPoolExecutor(job.threads) as pool:
        while due := marks.select_due(INSTANCE, KIND, due_by, after, CHUNK_MARKS):
            keys = chain.from_iterable(mark.keys or () for mark in due)
            for _ in pool.map(partial(_delete, vault), _pages(keys, UNSAFE_PAGE)):
                pass
            with db.write() as c:
                mark = db.t.mark
                c.execute(delete(mark).where(mark.c.instance == INSTANCE, refs_in(mark, [m.ref for m in due])))
            after = Cursor(retention_starts_at=due[-1].retention_starts_at, id=due[-1].id)


def _delete(vault: S3Vault, keys: Sequence[str]) -> None:
    """Delete a page; where the store is too slow for it, its halves."""
    try:
        results = vault.delete(keys)
    except VaultFault as e:
        if e.reason != UNREACHABLE or len(keys) < 2:
            raise
        _delete(vault, keys[: len(keys) // 2])
        _delete(vault, keys[len(keys) // 2 :])
    else:
        if any(r.outcome is not KeyOutcome.DELETED for r in results):
            raise AssertionError("the store refused a key")


def raw(job: Job) -> None:
    """``delete_objects`` of plain boto3: 1,000 keys a request, quiet, no retries, keys from memory."""
    s3 = client(job.endpoint, job.threads, retries={"total_max_attempts": 1})

    def page(keys: Sequence[str]) -> None:
        named = {"Objects": [{"Key": key} for key in keys], "Quiet": True}
        if s3.delete_objects(Bucket=BUCKET, Delete=named).get("Errors"):
            raise AssertionError("the store refused a key")

    with ThreadPoolExecutor(job.threads) as pool:
        for _ in pool.map(page, _pages(_all(job), PAGE_KEYS)):
            pass


CONTENDERS: dict[str, Callable[[Job], Callable[[], None]]] = {
    "direct": direct,
    "spark": spark,
    "pyspark": pyspark,
    "unsafe": lambda job: partial(unsafe, job),
    "boto3": lambda job: partial(raw, job),
}
"""By name: what makes a contender ready; it returns what is timed."""


def _all(job: Job) -> list[str]:
    return [key for mark in range(job.marks) for key in mark_keys(mark, job.keys)]


def _pages(keys: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(keys)
    while page := list(islice(rest, size)):
        yield page


def _alive() -> None:
    """The heartbeat, which nobody listens to here."""


def main() -> None:
    """Delete, and say how long it took."""
    job = Job(**json.loads(sys.argv[1]))
    delete_all = CONTENDERS[job.name](job)
    search_cycles_rarely()  # as a worker does
    began, cpu = time.perf_counter(), _cpu()
    delete_all()
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu": _cpu() - cpu}))


def _cpu() -> float:
    return time.process_time() + sum(used() for used in OTHERS)


if __name__ == "__main__":
    main()
