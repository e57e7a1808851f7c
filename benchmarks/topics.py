"""What purging topics costs: heartbeats, DeleteRecords against a call for each topic, and a whole round.

Goals: a heartbeat of 5,000 regions in 3 statements and 300 ms; the DeleteRecords phase 5 times as fast as one
call for each topic in the same run; a round of 1,000 topics with 50 regions each, and all of its purges, in 60 s; where
40 topics have work, 200 events of history.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from sqlalchemy import event
from temporalio.client import Client

from benchmarks.results import Result, at_least, at_most
from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.worker import control
from sexton.kernel.process import search_cycles_rarely
from sexton.runtime.stores import DeploymentStores
from sexton.wal.messages import PurgeRoundRequest, TopicCounts
from sexton.wal.model import Mode
from sexton.wal.policy import SLACK, HeartbeatReceipt, LeaderReport, MapOrder, RegionMapping, Stream
from sexton.wal.purger import PAGE_TOPICS
from sexton.wal.wal import WalService
from tests.servers.kafka import Kafka
from tests.servers.postgres import Cluster
from tests.servers.temporal import DevServer, start_local
from tests.support import downloads
from workflows import ids

DEPLOYMENT = "test-topics"
TOPICS, REGIONS, NODE_REGIONS, ENTRIES, PAIRS, BEATS = 1_000, 50, 5_000, 100, 5, 7
WORKING = 40
"""Topics with work."""
PURGED = ENTRIES - 2 * PAIRS - 1
"""Up to here the rounds purge; the deletes need two entries for each pair."""
STATEMENTS, BEAT_MS, AT_ONCE, ROUND_SECONDS, EVENTS = 3, 300.0, 5.0, 60.0, 200


class Ran(NamedTuple):
    """How a round went: its seconds, and the events of the history of its last run."""

    seconds: float
    events: int


def run(topics: int = TOPICS, pairs: int = PAIRS) -> Result:
    """Measure."""
    downloads.fetch()
    home = Path(tempfile.mkdtemp(prefix="bench-topics-"))
    kafka, cluster = Kafka(home), Cluster()
    try:
        kafka.start()
        names = [f"bench-{n:04}" for n in range(topics)]
        _fill(kafka.address, names)
        url = cluster.new_database(DEPLOYMENT)
        db = Database.open(url)
        usual = Settings(deployment=DEPLOYMENT, database_url=url)
        wanted = {"kafka": {"bootstrap.servers": kafka.address}, "flush": "off"}
        settings = usual.model_copy(update={"wal": usual.wal.model_copy(update=wanted)})
        wal = DeploymentStores(db, settings.engine_settings()).wal
        _map(wal, names)
        search_cycles_rarely()  # as the API does
        (few, everything), counts = asyncio.run(_rounds(db, wal, names, settings))
        statements, beats = _beats(db, wal, names)
        ratios = _deletes(wal, names, pairs)
        db.close()
    finally:
        kafka.stop()
        cluster.stop()
        shutil.rmtree(home, ignore_errors=True)
    figures = [
        at_most(f"a heartbeat of {NODE_REGIONS:,} regions: statements", statements, STATEMENTS, "statements", 0),
        at_most("the same: time, median", median(beats), BEAT_MS, "ms", 0),
        at_least("DeleteRecords: a call for 100 topics against one for each, median", median(ratios), AT_ONCE),
        at_most(f"{topics:,} topics x {REGIONS} regions, {WORKING} with work", few.seconds, ROUND_SECONDS, "s", 1),
        at_most("the same: events in the history of the round", few.events, EVENTS, "events", 0),
        at_most("a round of the same topics, all with work", everything.seconds, ROUND_SECONDS, "s", 1),
    ]
    sizes = {
        "topics": f"{counts.topics:,}",
        "regions each": REGIONS,
        "database": "PostgreSQL, fsync",
        "log": "Kafka, one node",
    }
    return Result(
        "topics", sizes, figures, {"beats_ms": beats, "ratios": ratios, "rounds": [*map(list, (few, everything))]}
    )


def _fill(address: str, names: Sequence[str]) -> None:
    """Make the topics, with so many entries each."""
    admin = AdminClient({"bootstrap.servers": address})
    for first in range(0, len(names), 100):
        some = [NewTopic(name, 1, 1) for name in names[first : first + 100]]
        for future in admin.create_topics(some).values():
            future.result()
    producer = Producer({"bootstrap.servers": address, "acks": "all", "queue.buffering.max.messages": 1_000_000})
    for name in names:
        for _ in range(ENTRIES):
            producer.produce(name, b"an entry of a region", partition=0)
        producer.poll(0)
    if producer.flush(120):
        raise AssertionError("Kafka did not take the entries")


def _map(wal: WalService, names: Sequence[str]) -> None:
    for name in names:
        regions = tuple(RegionMapping(region=f"{name}-{n}", first=0) for n in range(REGIONS))
        wal.maps.put(MapOrder(instance="shop", topic=name, generation=1, regions=regions))
        wal.store.enable(name, Mode.DELETE, "shop")
    for first in range(0, len(names), PAGE_TOPICS):
        wal.purger.preview(names[first : first + PAGE_TOPICS])


@contextmanager
def _heard(db: Database) -> Iterator[list[str]]:
    """Collect what is sent to the database meanwhile, beginning and end of transactions left out."""
    said: list[str] = []

    def hear(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith(("BEGIN", "COMMIT")):
            said.append(statement)

    event.listen(db.engine, "before_cursor_execute", hear)
    try:
        yield said
    finally:
        event.remove(db.engine, "before_cursor_execute", hear)


def _heartbeat(wal: WalService, names: Sequence[str], last: int) -> HeartbeatReceipt:
    """Let one node report for all of its regions."""
    its = ((name, f"{name}-{n}") for name in names for n in range(REGIONS))
    told = [LeaderReport(topic=t, region=r, epoch=0, streams=(Stream(flushed=last),)) for t, r in its]
    return wal.heartbeats.record_reports("shop", "node", told)


def _beats(db: Database, wal: WalService, names: Sequence[str]) -> tuple[int, list[float]]:
    """Return the statements of a heartbeat, and the milliseconds that some took."""
    mine, took, statements = names[: NODE_REGIONS // REGIONS], [], 0
    for n in range(BEATS):
        with _heard(db) as said:
            began = time.perf_counter()
            answer = _heartbeat(wal, mine, PURGED + n)
            took.append((time.perf_counter() - began) * 1000)
        if answer.taken != len(mine) * REGIONS:
            raise AssertionError(f"not all was heard: {answer}")
        statements = len(said)
    return statements, took


def _deletes(wal: WalService, names: Sequence[str], pairs: int) -> list[float]:
    """Return how many times as long a call for each topic takes as one for a hundred, over the same work."""
    pages = [names[n : n + PAGE_TOPICS] for n in range(0, len(names), PAGE_TOPICS)]
    ratios = []
    for pair in range(pairs):
        offset = PURGED + 1 + 2 * pair
        began = time.perf_counter()
        for page in pages:
            wal.log.delete_before(dict.fromkeys(page, offset))
        together = time.perf_counter() - began
        began = time.perf_counter()
        for name in names:
            wal.log.delete_before({name: offset + 1})
        ratios.append((time.perf_counter() - began) / together)
    return ratios


async def _rounds(
    db: Database, wal: WalService, names: Sequence[str], settings: Settings
) -> tuple[list[Ran], TopicCounts]:
    """Return how a round went in which few topics have work, and one in which all have; and the counts of the first."""
    working = names[:: len(names) // WORKING]
    environment = await start_local()
    try:
        client = await DevServer(environment).connect()
        async with await control.build(client, settings, db):
            _flush(wal, working, PURGED - 10)
            few, counts = await _round(wal, client, working)
            _flush(wal, names, PURGED)
            with db.write() as c:
                c.execute(db.t.wal_topic.update().values(checked_at=None))
            everything, _ = await _round(wal, client, names)
        return [few, everything], counts
    finally:
        await environment.shutdown()


def _flush(wal: WalService, names: Sequence[str], last: int) -> None:
    for first in range(0, len(names), NODE_REGIONS // REGIONS):
        _heartbeat(wal, names[first : first + NODE_REGIONS // REGIONS], last)


async def _round(wal: WalService, client: Client, working: Sequence[str]) -> tuple[Ran, TopicCounts]:
    """Run a round, which purges these topics."""
    began = time.perf_counter()
    handle = await client.start_workflow(
        ids.PURGE_WAL_ROUND,
        PurgeRoundRequest(deployment=DEPLOYMENT),
        id=ids.purge_wal_round(DEPLOYMENT),
        task_queue=ids.control_queue(DEPLOYMENT),
        result_type=TopicCounts,
    )
    counts = await handle.result()
    seconds = time.perf_counter() - began
    if (counts.purged, counts.started, counts.faults) != (len(working), 0, 0):
        raise AssertionError(f"the round was not whole: {counts}")
    if unpurged := [t.name for t in wal.floors.topics(working).values() if (t.log_start or 0) < (t.floor or 1) - SLACK]:
        raise AssertionError(f"topics are not purged: {unpurged}")
    return Ran(seconds, len((await handle.fetch_history()).events)), counts
