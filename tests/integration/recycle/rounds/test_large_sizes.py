"""No size that an owner states fails a plan, a round, a status or a scrape: sums end at a limit."""

from collections.abc import Iterator

import pytest
from sqlalchemy import BigInteger, select

from sexton.contract import MAX_BYTES, NewMark
from sexton.database.counters import BYTES, add_to_counters
from sexton.database.rows import MOST_SUM, as_rows, sum_of
from sexton.insight.metrics.figures.store import FigureStore
from sexton.insight.status import overview
from sexton.recycle.pipeline.sql.batches import add_to_round
from sexton.recycle.rounds.sql.reports import read_counters
from tests.servers.s3 import RunningS3
from tests.support.claims import token
from tests.support.rig import Rig, stores_of

MARKS = MOST_SUM // MAX_BYTES + 10
"""More marks of the largest size than a sum has place for, so more than 4,000."""


@pytest.fixture
def rig(database_url: str, s3_server: RunningS3, bucket: str) -> Iterator[Rig]:
    """An instance with a vault in S3, where most sizes are those that the owner states."""
    made = Rig(database_url, endpoint_url=s3_server.endpoint_url).instance()
    made.s3(bucket)
    yield made
    made.db.close()


def mark(rig: Rig, name: str, count: int) -> None:
    rows = [NewMark(id=f"{name}{n}", vault="cold", keys=(f"r/{name}{n}",), bytes=MAX_BYTES) for n in range(count)]
    rig.mark("dropped", *rows)
    rig.later(10_801)


def counted(rig: Rig) -> int:
    with rig.db.read() as c:
        return read_counters(rig.db, c)["shop", BYTES, "dropped"]


@pytest.mark.slow
def test_plans_and_status_end_sums_at_the_largest(rig: Rig) -> None:
    mark(rig, "a", 2 * MARKS)

    [of_instance] = overview(rig.db, stores_of(rig.db).insight, rig.policy, 1).instances
    [planned] = rig.plan().kinds

    assert [k.due_bytes for k in of_instance.kinds if k.kind == "dropped"] == [MOST_SUM]
    assert planned.bytes == planned.unheld.bytes == MOST_SUM


def test_counts_of_a_round_end_at_the_largest_sum(rig: Rig) -> None:
    lease = token(rig)
    counts = {("dropped", "cold"): {"bytes_freed": MOST_SUM - 1, "bytes_estimated": 2**70, "deleted": 1}}

    with rig.db.write() as c:
        for _ in range(2):
            add_to_round(rig.db, c, lease.round, counts)
        sums = c.execute(select(rig.db.t.tally)).one()

    assert (sums.bytes_freed, sums.bytes_estimated, sums.deleted) == (MOST_SUM, MOST_SUM, 2)
    assert rig.stores.outcomes.deleted_so_far(lease, "dropped")["bytes"] == MOST_SUM


def test_counters_end_at_the_largest_sum(rig: Rig) -> None:
    mark(rig, "a", 20)
    with rig.db.write() as c:
        add_to_counters(rig.db, c, "shop", {(BYTES, "dropped"): 2**70})

    report = rig.round()

    assert (report.state, report.bytes_estimated, counted(rig)) == ("SUCCEEDED", 20 * MAX_BYTES, MOST_SUM)
    figures = FigureStore(rig.db, stores_of(rig.db).insight, rig.policy, 3_600).read()
    assert figures.unreadable == 0


def test_sums_are_exact_up_to_the_largest(rig: Rig) -> None:
    for sizes in [(), (0,), (5, 2**20, 2**50 + 3), (2**50,) * 9_000, (2**63 - 1,) * 3]:
        rows = as_rows([{"size": size} for size in sizes], size=BigInteger())

        with rig.db.read() as c:
            assert c.execute(select(sum_of(rows.c.size))).scalar_one() == min(sum(sizes), MOST_SUM)
