"""A standalone Spark cluster checks and deletes with the code sent with the session."""

import os
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.runtime.spark.compare import SparkComparison
from sexton.runtime.spark.deleter import SparkDeleter
from sexton.runtime.spark.deletion import Work
from sexton.runtime.spark.locations import ConnectionTarget
from sexton.runtime.spark.session import Sessions
from tests.fault.live.store import PAGE, Bucket
from tests.fault.live.store import deletes as pages
from tests.integration.check.conftest import Owned, file_keys, live_view
from tests.integration.runtime.spark.conftest import target
from tests.servers.fault_proxy import FaultProxy
from tests.servers.s3 import RunningS3
from tests.servers.spark import Cluster
from tests.support.eventually import eventually
from tests.support.rig import DAY

CONNECTIONS = 2
REQUESTS = 4
PAGES = 8
LOOKS = 30
"""A connection counts when so many looks in a row, 10 ms apart, saw it."""


@pytest.fixture
def cluster(s3_server: RunningS3, tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(
        tmp_path / "cluster", {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    )
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def shop(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Owned]:
    made = Owned(database_url, endpoint_url=s3_server.endpoint_url, clock_step_seconds=0.01).instance()
    assert isinstance(made, Owned)
    with live_view(made):
        made.s3(bucket, prefix="warehouse/")
        made.registry.set_key_pattern("shop", r"data/.*\.dat")
        yield made
    made.db.close()


def executors(of: int) -> list[int]:
    """Return the processes of executors that a process has started, through others too."""
    found, below = [], [of]
    while below:
        process = Path(f"/proc/{below.pop()}")
        with suppress(OSError):
            below += map(int, " ".join(task.read_text() for task in process.glob("task/*/children")).split())
            if b"CoarseGrainedExecutorBackend" in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return found


@contextmanager
def watched(shop: Owned) -> Iterator[list[int]]:
    """Watch the connections of others than us to the database; the most there were at a time is the first number."""
    most, over = [0], threading.Event()
    pool = shop.db.engine.pool
    there = text("SELECT pid FROM pg_stat_activity WHERE application_name = 'sexton' AND datname = current_database()")

    def ours() -> int:
        return int(pool.checkedin() + pool.checkedout())  # type: ignore[attr-defined]

    def watch() -> None:
        looks: deque[set[int]] = deque(maxlen=LOOKS)
        while not over.wait(0.01):
            with shop.db.read() as c:
                mine = ours()
                now = set(c.execute(there).scalars())
                mine = max(mine, ours())  # one of ours may have come meanwhile
                looks.append(now)
                # One that is being closed is there for a moment longer: of several at once only those that last count.
                lasting = set.intersection(*looks) if len(looks) == LOOKS else set[int]()
                most[0] = max(most[0], len(lasting) - mine, min(1, len(now) - mine))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield most
    finally:
        over.set()
        watching.join()


@pytest.mark.slow  # a master, two executors and their Python cost more CPU than all other tests of Spark
def test_a_cluster_runs_the_code_sent_with_the_session(
    cluster: Cluster, shop: Owned, s3_server: RunningS3, bucket: str, tmp_path: Path
) -> None:
    client = s3_server.client()
    keys = [key for tablet in range(8) for key in file_keys(10, f"t{tablet}")]
    for key in (*keys[1:], "data/t9/gone_0.dat"):
        client.put_object(Bucket=bucket, Key=f"warehouse/{key}", Body=b"x" * 10)
    shop.live_rows(*((f"s3a://{bucket}/warehouse/{key}", 10) for key in keys), vault="cold")
    shop.later(3 * DAY)
    where = target(shop)
    running = Sessions(cluster.remote, {}, tmp_path / "home")
    try:
        how = SparkComparison(
            running,
            where,
            shop.vaults,
            shop.live_side,
            shop.runs,
            scratch=str(tmp_path / "scratch"),
            connections=CONNECTIONS,
        )
        with watched(shop) as most:
            report = shop.check(how)

        assert (report.whole, report.run.missing_inputs) == (True, ())
        assert shop.open_findings() == {"LOST": {keys[0]}, "ORPHAN": {"data/t9/gone_0.dat"}}
        assert 1 <= most[0] <= CONNECTIONS

        deletes(shop, running, where, bucket, s3_server)
    finally:
        running.close()


def deletes(shop: Owned, running: Sessions, where: ConnectionTarget, bucket: str, server: RunningS3) -> None:
    """Delete on the cluster, one of whose executors is killed in the middle."""
    store = Bucket(server, bucket)
    with FaultProxy(server.endpoint_url, server.access_key, server.secret_key) as proxy:
        shop.sql("UPDATE {}vault SET endpoint = :url", url=proxy.url)
        store.fill_now(shop, PAGES)
        proxy.delay("DeleteObjects", 0.1)
        deleter_on_spark = SparkDeleter(running, Work(where=where, requests=REQUESTS), 2 * CONNECTIONS)
        shop.recycler = shop.recycler_of(shop.owner, deleter_on_spark)
        killed: list[int] = []

        def kill() -> None:
            eventually("half of the pages are sent", lambda: len(pages(proxy)) >= PAGES)
            killed.append(executors(os.getpid())[0])
            os.kill(killed[0], signal.SIGKILL)

        killing = threading.Thread(target=kill)
        killing.start()
        with watched(shop) as most:
            report = shop.round()
        killing.join()
        named = Counter(key for page in pages(proxy) for key in page.keys)
    twice = sum(n - 1 for n in named.values())
    print(f"connections of executors at most {most[0]}; named twice {twice} of {len(named)} keys")

    assert (report.deleted + report.absent, report.failed, report.waiting) == (PAGES * PAGE, 0, 0)
    assert len(named) == PAGES * PAGE
    assert twice <= REQUESTS * PAGE  # those of the task that was under way on it
    assert 1 <= most[0] <= 2 * CONNECTIONS
    assert len(killed) == 1
