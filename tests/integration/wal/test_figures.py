"""Metrics of topics equal the tables."""

from sexton.database.engine import Database
from sexton.insight.metrics.figures.topics import figures
from sexton.insight.metrics.model import WalFigures
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import Mode, WalSettings
from sexton.wal.orders import RegionMapping
from sexton.wal.sql.floors import FloorStore
from tests.integration.wal.topic_stores import TopicStores

LIMITS = WalSettings(flush_entries=60)


def read(db: Database) -> tuple[WalFigures, int]:
    with db.read() as c:
        now = db.now(c)
        return figures(db, c, LIMITS), now


def test_disabled_topics_are_not_counted(topics: TopicStores) -> None:
    topic = topics.topic(10)
    topics.map(topic, RegionMapping(region="r1", first=0))
    topics.store.disable(topic)

    counts, _ = read(topics.db)

    assert (counts.topics, counts.entries, sum(counts.blocked.values()), counts.ok_since) == (0, 0, 0, None)


def test_retained_freed_blocked_lost_and_replayed_are_counted(topics: TopicStores) -> None:
    purged, lost, silent = topics.topic(100), topics.topic(100), topics.topic(100)
    for topic in (purged, lost):
        topics.map(topic, RegionMapping(region="r1", first=0))
        topics.purge(topic)
    topics.map(silent, "r1")
    topics.flushed(purged, "r1", 39)
    topics.flushed(lost, "r1", 9)
    topics.place.log.delete_before({lost: 50})
    topics.purger.review([purged], [purged])
    for topic in (purged, lost, silent):
        topics.purge(topic)
    pin = topics.open(purged, "r1", 39)
    topics.wait(60)

    counts, now = read(topics.db)

    assert (counts.topics, counts.lost_regions, counts.quarantined, counts.faulty) == (3, 1, 0, 0)
    assert {reason: n for reason, n in counts.blocked.items() if n} == {"no report": 1}
    asked = FloorStore(topics.db, LIMITS, ControlStore(topics.db)).regions_to_flush([purged, lost, silent])
    assert counts.lagging_regions == len(asked) == 1
    assert (counts.freed, counts.entries) == (39, 61 + 50 + 100)
    assert counts.bytes in (61 * 5, 61 * 8)  # without and with a key
    assert (counts.replays, counts.oldest_replay) == (1, pin.opened_at)
    assert counts.ok_since is not None
    assert counts.blocked_since is not None
    assert 60_000 <= now - counts.ok_since < 120_000
    assert 60_000 <= now - counts.blocked_since < 120_000


def test_stop_is_counted_and_does_not_age_as_a_block(topics: TopicStores) -> None:
    topic = topics.topic(10)
    topics.map(topic, RegionMapping(region="r1", first=0))
    ControlStore(topics.db).put(ControlKind.STOP, ALL, "a test", "the tester")
    topics.purge(topic)

    counts, _ = read(topics.db)

    assert (counts.blocked["stopped"], counts.blocked_since) == (1, None)


def test_unanswering_topic_ages_from_its_last_answer(topics: TopicStores) -> None:
    topics.store.enable("wal-nowhere", Mode.DELETE, "shop")
    topics.wait(600)
    topics.purger.purge(["wal-nowhere"])

    counts, now = read(topics.db)

    assert (counts.faulty, counts.blocked["log fault"]) == (1, 1)
    assert counts.ok_since is not None
    assert now - counts.ok_since >= 600_000
