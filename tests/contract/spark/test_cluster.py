"""A cluster on one machine: master, two workers, a Connect server. Code comes with the session."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from sexton.spark.compare import OnSpark
from sexton.spark.places import Where, without_password
from sexton.spark.session import Sessions
from tests.contract.check.conftest import Owned, names, table
from tests.rig import DAY, DEPLOYMENT
from tests.servers.s3 import RunningS3
from tests.servers.spark import Cluster

CONNECTIONS = 2


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
def shop(postgres_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Owned]:
    made = Owned(postgres_url, endpoint_url=s3_server.endpoint_url, look_seconds=0.01).instance()
    assert isinstance(made, Owned)
    with table(made):
        made.s3(bucket, prefix="warehouse/")
        made.registry.set_key_pattern("shop", r"data/.*\.dat")
        yield made
    made.db.close()


@pytest.mark.timeout(300)
def test_a_cluster_checks_with_code_that_came_with_the_session(
    cluster: Cluster, shop: Owned, s3_server: RunningS3, bucket: str, tmp_path: Path
) -> None:
    client = s3_server.client()
    keys = [key for tablet in range(8) for key in names(10, f"t{tablet}")]
    for key in (*keys[1:], "data/t9/gone_0.dat"):
        client.put_object(Bucket=bucket, Key=f"warehouse/{key}", Body=b"x" * 10)
    shop.live_rows(*((f"s3a://{bucket}/warehouse/{key}", 10) for key in keys), vault="cold")
    shop.later(3 * DAY)
    where = Where(deployment=DEPLOYMENT, database_url=without_password(shop.url), endpoint_url=s3_server.endpoint_url)
    running = Sessions(cluster.remote, {}, tmp_path / "home")
    most, over = [0], threading.Event()

    def watch() -> None:
        count = text(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sexton' AND datname = current_database()"
        )
        while not over.is_set():
            with shop.db.read() as c:
                ours = shop.db.engine.pool.checkedin() + shop.db.engine.pool.checkedout()  # type: ignore[attr-defined]
                most[0] = max(most[0], int(c.execute(count).scalar_one()) - ours)
            time.sleep(0.02)

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        how = OnSpark(
            running,
            where,
            shop.vaults,
            shop.live_side,
            shop.runs,
            scratch=str(tmp_path / "scratch"),
            connections=CONNECTIONS,
        )
        report = shop.check(how)
    finally:
        over.set()
        watching.join()
        running.close()
    print(f"connections of executors at most {most[0]}")

    assert (report.whole, report.run.lacks) == (True, ())
    assert shop.found() == {"LOST": {keys[0]}, "ORPHAN": {"data/t9/gone_0.dat"}}
    assert 1 <= most[0] <= CONNECTIONS
