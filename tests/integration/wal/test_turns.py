"""Due topics are reviewed by name, in parts, and no topic starves."""

import pytest
from sqlalchemy import update

from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.controls.store import ControlStore
from sexton.wal import purger
from sexton.wal.model import Mode, WalSettings
from sexton.wal.orders import MapOrder, RegionMapping
from sexton.wal.purger import PurgeRounds
from sexton.wal.sql.store import WalSchedule
from sexton.wal.wal import WalService
from tests.integration.wal.topic_stores import WAL_SETTINGS as FIELD_TERMS
from tests.integration.wal.topic_stores import TopicStores

WAL_SETTINGS = WalSettings(interval_seconds=1_800, purge_entries=300, purge_bytes=10_000)


def enabled(db: Database, *names: str) -> None:
    for name in names:
        WalService(db, WAL_SETTINGS, ControlStore(db)).store.enable(name, Mode.DELETE, "shop")


def test_due_topics_are_listed_by_name_in_parts(db: Database) -> None:
    enabled(db, *(f"t{n}" for n in range(8)))
    due_topics = WalSchedule(db, WAL_SETTINGS)

    first = due_topics.due("", 6)
    mark_as_purged(db, *first[:2])
    rest = due_topics.due(first[-1], 6)

    assert first == [f"t{n}" for n in range(6)]
    assert rest == ["t6", "t7"]
    assert due_topics.due("", 100) == [f"t{n}" for n in range(2, 8)]


def mark_as_purged(db: Database, *names: str, ahead_ms: int = 0) -> None:
    """Mark topics as checked now; ``ahead_ms``: as a clock that was ahead for a moment saw it."""
    with db.write() as c:
        t = db.t.wal_topic
        c.execute(t.update().where(t.c.name.in_(names)).values(checked_at=db.now(c) + ahead_ms))


def test_enabled_topic_is_due_after_its_interval(db: Database) -> None:
    enabled(db, "on", "off")
    WalService(db, WAL_SETTINGS, ControlStore(db)).store.disable("off")
    due_topics = WalSchedule(db, WAL_SETTINGS)
    due = [due_topics.any_due()]
    mark_as_purged(db, "on")
    schema.move_clock(db, 10)
    due.append(due_topics.any_due())
    schema.move_clock(db, 1_790)
    due.append(due_topics.any_due())

    assert due == [True, False, True]
    assert due_topics.due("", 10) == ["on"]


def test_topic_that_was_checked_in_the_future_is_due(db: Database) -> None:
    enabled(db, "t1")
    mark_as_purged(db, "t1", ahead_ms=365 * 86_400_000)
    due_topics = WalSchedule(db, WAL_SETTINGS)

    assert due_topics.any_due()
    assert due_topics.due("", 10) == ["t1"]


def test_each_name_is_in_exactly_one_part(db: Database) -> None:
    names = ["a", "B", "b", "_x", "-x", ".x"]
    enabled(db, *names)
    due_topics = WalSchedule(db, WAL_SETTINGS)

    first = due_topics.due("", 3)

    assert sorted([*first, *due_topics.due(first[-1], 3)]) == sorted(names)


def test_topic_with_much_to_delete_is_due_early(db: Database) -> None:
    names = ["many", "large", "small", "silent", "gone"]
    enabled(db, *names)
    wal = WalService(db, WAL_SETTINGS, ControlStore(db))
    for name in names:
        wal.maps.put(
            MapOrder(
                instance="shop",
                topic=name,
                generation=1,
                regions=(RegionMapping(region="r"), RegionMapping(region="s", first=0)),
            )
        )
    needs = {"many": 350, "large": 60, "small": 60, "silent": None, "gone": 350}
    with db.write() as c:
        t, r = db.t.wal_topic, db.t.wal_region
        c.execute(t.update().values(log_start=10, log_end=1_000, checked_at=db.now(c)))
        for name, need in needs.items():
            c.execute(r.update().where(r.c.topic == name).values(keep_from=need))
        c.execute(t.update().where(t.c.name == "large").values(entry_bytes=200.0))
        c.execute(t.update().where(t.c.name == "gone").values(quarantined="for the test"))
    schema.move_clock(db, 10)

    assert WalSchedule(db, WAL_SETTINGS).due("", 10) == ["large", "many"]


def run(work: PurgeRounds, most: int) -> int:
    """Review topics as the workflow does, continuing as new while there are more; purge those with work."""
    after = ""
    for n in range(1, most + 1):
        review = work.review(after, lambda: None)
        for topic in review.work:
            work.preview(topic.topic)
            work.purge(topic.topic)
        if not review.more:
            return n
        after = review.after
    return most + 1


@pytest.mark.parametrize("place", ["embedded"], indirect=True)  # its names are chosen
@pytest.mark.parametrize("reason", ["deleted in Kafka", "much to purge, and blocked"])
def test_topics_that_stay_due_delay_no_other(topics: TopicStores, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr(purger, "PAGE_TOPICS", 2)
    monkeypatch.setattr(purger, "MAX_TOPICS", 4)  # instead of 2,000
    terms: WalSettings = FIELD_TERMS.model_copy(update={"purge_entries": 10})
    t = topics.db.t.wal_topic
    for n in range(5):
        name = f"aaa-{n}"
        topics.store.enable(name, Mode.DELETE, "shop")  # deleted in Kafka, and still enabled in Sexton
        if reason != "deleted in Kafka":
            topics.place.log.create(name)  # type: ignore[attr-defined]
            topics.place.append(name, 30)
            topics.map(name, RegionMapping(region="r1", first=0))
            topics.purge(name)
            topics.flushed(name, "r1", 19)
            with topics.db.write() as c:  # blocked: its owner stopped sending maps
                c.execute(update(t).where(t.c.name == name).values(mapped_at=1))
    topics.place.log.create("zzz")  # type: ignore[attr-defined]
    topics.place.append("zzz", 30)
    topics.store.enable("zzz", Mode.DELETE, "shop")
    topics.map("zzz", RegionMapping(region="r1", first=0))
    topics.purger.preview(["zzz"])
    topics.flushed("zzz", "r1", 19)

    runs = run(PurgeRounds(WalSchedule(topics.db, terms), topics.floors, topics.purger, None, 10), 20)

    assert (topics.store.topic("zzz").floor, runs <= 20) == (20, True)


def test_topic_is_due_at_once_when_enabled(topics: TopicStores) -> None:
    topic = topics.topic(10)
    topics.map(topic, RegionMapping(region="r1", first=0))
    topics.store.disable(topic)
    topics.purge(topic)
    topics.wait(8 * 3_600)

    enabled_topic = topics.store.enable(topic, Mode.DELETE, "shop")

    assert (enabled_topic.blocked, enabled_topic.checked_at) == ({}, None)
