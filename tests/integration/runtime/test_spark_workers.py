"""Spark workers report how busy they are; one that is silent for half a minute is absent."""

import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import OperationalError

from sexton.runtime.spark import presence
from sexton.runtime.spark.presence import reporting
from sexton.runtime.spark.store import SparkWorkerStore
from tests.support.eventually import eventually_async
from tests.support.rig import Rig


@pytest.fixture
def workers(rig: Rig) -> SparkWorkerStore:
    return SparkWorkerStore(rig.db)


def older(rig: Rig, worker: str, seconds: int) -> None:
    """Let a worker have reported so many seconds earlier."""
    t = rig.db.t.spark_worker
    with rig.db.write() as c:
        seen_at = c.execute(select(t.c.seen_at).where(t.c.worker == worker)).scalar_one()
        c.execute(update(t).where(t.c.worker == worker).values(seen_at=seen_at - 1000 * seconds))


def test_a_worker_stays_present_when_a_trial_moves_the_clock(rig: Rig, workers: SparkWorkerStore) -> None:
    workers.report("a", slots=2, busy=0)
    rig.later(86_400)

    assert workers.count_slots() == (2, 2)


def test_slots_are_summed_over_workers_that_run(rig: Rig, workers: SparkWorkerStore) -> None:
    workers.report("silent", slots=8, busy=0)
    older(rig, "silent", seconds=31)
    workers.report("a", slots=2, busy=2)
    workers.report("b", slots=2, busy=0)
    workers.report("b", slots=2, busy=1)

    assert workers.count_slots() == (4, 1)


def test_a_worker_of_yesterday_has_no_row(rig: Rig, workers: SparkWorkerStore) -> None:
    workers.report("old", slots=2, busy=0)
    older(rig, "old", seconds=86_401)
    workers.report("new", slots=2, busy=0)

    assert rig.count("spark_worker") == 1


async def test_a_worker_reports_until_it_ends(
    rig: Rig, workers: SparkWorkerStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presence, "REPORT_SECONDS", 0.01)
    busy, refused = 0, 0
    report = workers.report

    def failing_once(*arguments: object) -> None:
        nonlocal refused
        if busy and not refused:
            refused = 1
            raise OperationalError("INSERT", {}, Exception("the database is away"))
        report(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(workers, "report", failing_once)

    async def has_a_busy_slot() -> bool:
        return workers.count_slots() == (2, 1)

    async with reporting(workers, 2, lambda: busy):
        assert workers.count_slots() == (2, 2)
        busy = 1
        await eventually_async("it reports a busy slot", has_a_busy_slot)

    assert refused
    assert workers.count_slots() == (0, 0)
    assert rig.count("spark_worker") == 0


def test_a_clock_that_was_ahead_leaves_no_free_spark_worker(rig: Rig) -> None:
    workers = SparkWorkerStore(rig.db)
    workers.report("killed:1", 2, 0)
    rig.set_year_ahead("spark_worker", "seen_at")  # it reported while the clock was ahead, then it was killed
    workers.report("other:2", 2, 2)  # a worker that runs, and is busy

    assert workers.count_slots() == (2, 0)
