"""What metrics show about topics, read from the tables alone, on both databases."""

from sexton.database.engine import Database
from sexton.insight.metrics.figures.topics import figures
from sexton.insight.metrics.model import WalFigures
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import Mode
from sexton.wal.orders import RegionMapping
from tests.integration.wal.field import Field


def read(db: Database) -> tuple[WalFigures, int]:
    with db.read() as c:
        now = db.now(c)
        return figures(db, c, now), now


def test_disabled_topics_are_not_counted(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.store.disable(topic)

    counts, _ = read(field.db)

    assert (counts.topics, counts.entries, sum(counts.blocked.values()), counts.ok_since) == (0, 0, 0, None)


def test_retained_freed_blocked_lost_and_replayed_are_counted(field: Field) -> None:
    purged, lost, silent = field.topic(100), field.topic(100), field.topic(100)
    for topic in (purged, lost):
        field.map(topic, RegionMapping(region="r1", first=0))
        field.purge(topic)
    field.map(silent, "r1")
    field.flushed(purged, "r1", 39)
    field.flushed(lost, "r1", 9)
    field.place.log.delete_before({lost: 50})
    field.purger.estimate_entry_sizes([purged])
    for topic in (purged, lost, silent):
        field.purge(topic)
    pin = field.open(purged, "r1", 39)
    field.wait(60)

    counts, now = read(field.db)

    assert (counts.topics, counts.lost_regions, counts.quarantined, counts.faulty) == (3, 1, 0, 0)
    assert {reason: n for reason, n in counts.blocked.items() if n} == {"no report": 1}
    assert (counts.freed, counts.entries) == (39, 61 + 50 + 100)
    assert counts.bytes in (61 * 5, 61 * 8)  # without and with a key
    assert (counts.replays, counts.oldest_replay) == (1, pin.opened_at)
    assert counts.ok_since is not None
    assert counts.blocked_since is not None
    assert 60_000 <= now - counts.ok_since < 120_000
    assert 60_000 <= now - counts.blocked_since < 120_000


def test_stop_is_counted_and_does_not_age_as_a_block(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    ControlStore(field.db).put(ControlKind.STOP, ALL, "a test", "the tester")
    field.purge(topic)

    counts, _ = read(field.db)

    assert (counts.blocked["stopped"], counts.blocked_since) == (1, None)


def test_unanswering_topic_ages_from_its_last_answer(field: Field) -> None:
    field.store.enable("wal-nowhere", Mode.DELETE)
    field.wait(600)
    field.purger.purge(["wal-nowhere"])

    counts, now = read(field.db)

    assert (counts.faulty, counts.blocked["log fault"]) == (1, 1)
    assert counts.ok_since is not None
    assert now - counts.ok_since >= 600_000
