"""What metrics tell of topics, from the tables alone, on both databases."""

from sexton.database.engine import Database
from sexton.insight.metrics.figures.topics import figures
from sexton.insight.metrics.model import WalFigures
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.wal.model import Mode
from sexton.wal.orders import RegionMapping
from tests.contract.wal.field import Field


def read(db: Database) -> tuple[WalFigures, int]:
    with db.read() as c:
        now = db.now(c)
        return figures(db, c, now), now


def test_disabled_topics_are_not_counted(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.store.disable(topic)

    found, _ = read(field.db)

    assert (found.topics, found.entries, sum(found.blocked.values()), found.ok_since) == (0, 0, 0, None)


def test_retained_freed_blocked_lost_and_replayed_are_counted(field: Field) -> None:
    fine, lost, silent = field.topic(100), field.topic(100), field.topic(100)
    for topic in (fine, lost):
        field.map(topic, RegionMapping(region="r1", first=0))
        field.purge(topic)
    field.map(silent, "r1")
    field.flushed(fine, "r1", 39)
    field.flushed(lost, "r1", 9)
    field.place.log.delete_before({lost: 50})
    field.purger.weigh([fine])
    for topic in (fine, lost, silent):
        field.purge(topic)
    pin = field.open(fine, "r1", 39)
    field.wait(60)

    found, now = read(field.db)

    assert (found.topics, found.lost_regions, found.quarantined, found.faulty) == (3, 1, 0, 0)
    assert {why: n for why, n in found.blocked.items() if n} == {"no report": 1}
    assert (found.freed, found.entries) == (39, 61 + 50 + 100)
    assert found.bytes in (61 * 5, 61 * 8)  # without and with a key
    assert (found.replays, found.oldest_replay) == (1, pin.opened_at)
    assert found.ok_since is not None
    assert found.blocked_since is not None
    assert 60_000 <= now - found.ok_since < 120_000
    assert 60_000 <= now - found.blocked_since < 120_000


def test_stop_is_counted_and_does_not_age_as_a_block(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    ControlStore(field.db).put(ControlKind.STOP, ALL, "a test", "the tester")
    field.purge(topic)

    found, _ = read(field.db)

    assert (found.blocked["stopped"], found.blocked_since) == (1, None)


def test_unanswering_topic_ages_from_its_last_answer(field: Field) -> None:
    field.store.enable("wal-nowhere", Mode.DELETE)
    field.wait(600)
    field.purger.purge(["wal-nowhere"])

    found, now = read(field.db)

    assert (found.faulty, found.blocked["log fault"]) == (1, 1)
    assert found.ok_since is not None
    assert now - found.ok_since >= 600_000
