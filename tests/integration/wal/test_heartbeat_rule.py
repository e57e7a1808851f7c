"""Stored heartbeats agree with the rule ``reports.merge``."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import insert, select, update

from sexton.database.engine import Database
from sexton.wal.model import KeepFromSource, Region
from sexton.wal.orders import LeaderReport, Stream
from sexton.wal.reports import merge, reported_need
from sexton.wal.sql.heartbeats import HeartbeatStore
from tests.servers.postgres import new_database

IDS = st.integers(0, 12)
PROGRESS = st.lists(IDS, min_size=1, max_size=2).map(tuple)
REGIONS = st.builds(
    Region,
    topic=st.just("wal-0"),
    region=st.just("r1"),
    keep_from=IDS | st.none(),
    flushed=PROGRESS,
    source=st.sampled_from(KeepFromSource),
)
PENDING = st.none() | st.tuples(IDS, PROGRESS | st.none())
STREAMS = st.lists(st.builds(Stream, flushed=IDS | st.none(), idle=IDS | st.none()), min_size=1, max_size=2)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """One region of one topic."""
    url = new_database()
    db = Database.open(url)
    with db.write() as c:
        c.execute(insert(db.t.wal_topic).values(name="wal-0", instance="shop"))
        c.execute(insert(db.t.wal_region).values(**Region(topic="wal-0", region="r1").model_dump()))
    yield db
    db.close()


def stored(db: Database) -> Region:
    with db.read() as c:
        return Region(**c.execute(select(db.t.wal_region)).one()._mapping)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(region=REGIONS, pending=PENDING, streams=STREAMS, log_end=IDS | st.none())
def test_stored_heartbeat_agrees_with_the_rule(
    database: Database,
    region: Region,
    pending: tuple[int, tuple[int, ...] | None] | None,
    streams: list[Stream],
    log_end: int | None,
) -> None:
    if pending is not None:
        waits, flushed = pending
        region = region.model_copy(update={"pending_keep_from": waits, "pending_flushed": flushed})
    with database.write() as c:
        c.execute(update(database.t.wal_topic).values(log_end=log_end))
        c.execute(update(database.t.wal_region).values(**region.model_dump()))
    report = LeaderReport(topic="wal-0", region="r1", epoch=0, streams=tuple(streams))

    receipt = HeartbeatStore(database).record_reports("shop", "n1", [report])

    after, expected = stored(database), merge(region, reported_need(report), log_end)
    assert after.reported_at is not None
    assert after == expected.model_copy(update={"node": "n1", "reported_at": after.reported_at})
    assert (receipt.taken, receipt.waiting) == ((0, 1) if expected.pending_keep_from is not None else (1, 0))
