"""Due topics are reviewed and purged in pages, none starves, and metrics equal the tables."""

from collections.abc import Iterator, Sized
from contextlib import contextmanager, suppress

import pytest
from sqlalchemy import delete, event, select, update

from sexton.database import schema
from sexton.database.engine import Database
from sexton.insight.metrics.figures.logs import wal_figures
from sexton.insight.metrics.model import WalFigures
from sexton.kernel.crash_points import installed
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.wal import purger
from sexton.wal.model import Mode, WalSettings
from sexton.wal.policy import MapOrder, RegionMapping
from sexton.wal.purger import PurgeRounds
from sexton.wal.sql.floors import FloorStore
from sexton.wal.sql.store import WalSchedule
from sexton.wal.wal import WalService
from tests.integration.wal.topic_stores import WAL_SETTINGS as FIELD_TERMS
from tests.integration.wal.topic_stores import TopicStores
from tests.support.crashes import Crash, crash_at
from tests.support.rig import Rig

WAL_SETTINGS = WalSettings(auto_purge_interval_seconds=1_800, purge_trigger_entries=300, purge_trigger_bytes=10_000)


@pytest.fixture
def db(rig: Rig) -> Database:
    """A database of its own for each test, because all topics of a database are due, and counted."""
    return rig.db


def enabled(db: Database, *names: str) -> None:
    for name in names:
        WalService(db, WAL_SETTINGS, ControlStore(db)).store.enable(name, Mode.DELETE, "shop")


def mark_as_purged(db: Database, *names: str, ahead_ms: int = 0) -> None:
    """Mark topics as checked now; ``ahead_ms``: as a clock that was ahead for a moment saw it."""
    with db.write() as c:
        t = db.t.wal_topic
        c.execute(t.update().where(t.c.name.in_(names)).values(checked_at=db.now(c) + ahead_ms))


def test_due_topics_are_listed_by_name_in_parts(db: Database) -> None:
    names = ["a", "B", "b", "_x", "-x", ".x", "t6", "t7"]
    enabled(db, *names)
    due_topics = WalSchedule(db, WAL_SETTINGS)

    first = due_topics.due("", 6)
    mark_as_purged(db, *first[:2])
    rest = due_topics.due(first[-1], 6)

    assert len(first) == 6
    assert sorted([*first, *rest]) == sorted(names)
    assert due_topics.due("", 100) == [*first[2:], *rest]


def test_enabled_topic_is_due_after_its_interval(db: Database) -> None:
    enabled(db, "on", "off")
    WalService(db, WAL_SETTINGS, ControlStore(db)).store.disable("off")
    due_topics = WalSchedule(db, WAL_SETTINGS)
    due = [due_topics.any_due()]
    mark_as_purged(db, "on")
    for seconds in (10, 1_790):
        schema.move_clock(db, seconds)
        due.append(due_topics.any_due())
    assert due == [True, False, True]
    assert due_topics.due("", 10) == ["on"]

    mark_as_purged(db, "on", ahead_ms=365 * 86_400_000)
    assert due_topics.any_due()
    assert due_topics.due("", 10) == ["on"]


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
            work.purge([topic.topic])
        if not review.more:
            return n
        after = review.after
    return most + 1


@pytest.mark.parametrize("reason", ["deleted in Kafka", "much to purge, and blocked"])
def test_topics_that_stay_due_delay_no_other(topics: TopicStores, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    monkeypatch.setattr(purger, "PAGE_TOPICS", 2)
    monkeypatch.setattr(purger, "MAX_TOPICS", 4)  # instead of 2,000
    terms: WalSettings = FIELD_TERMS.model_copy(update={"purge_trigger_entries": 10})
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


LIMITS = WalSettings(trigger_flush_entries=60)


def read(db: Database) -> tuple[WalFigures, int]:
    with db.read() as c:
        now = db.now(c)
        return wal_figures(db, c, LIMITS), now


def test_topic_without_a_purge_is_counted_by_its_reason(topics: TopicStores) -> None:
    topic = topics.topic(10)
    topics.map(topic, RegionMapping(region="r1", first=0))
    topics.store.disable(topic)
    topics.purge(topic)
    topics.wait(8 * 3_600)
    disabled, _ = read(topics.db)
    enabled_topic = topics.store.enable(topic, Mode.DELETE, "shop")
    ControlStore(topics.db).put(ControlKind.STOP, ALL, "a test", "the tester")
    topics.purge(topic)
    stopped, _ = read(topics.db)
    ControlStore(topics.db).remove(ControlKind.STOP, ALL)
    topics.purge(topic)
    topics.store.enable("wal-nowhere", Mode.DELETE, "shop")
    topics.wait(600)
    for name in (topic, "wal-nowhere"):
        topics.purge(name)
    unanswering, now = read(topics.db)

    counts = disabled.topics, disabled.entries, sum(disabled.blocked.values()), disabled.ok_since
    assert counts == (0, 0, 0, None)
    assert (enabled_topic.blocked, enabled_topic.checked_at) == ({}, None)  # it is due at once
    assert (stopped.blocked["stopped"], stopped.blocked_since) == (1, None)  # a stop does not age as a block
    assert (unanswering.faulty, unanswering.blocked["log fault"]) == (1, 1)
    assert unanswering.ok_since is not None
    assert now - unanswering.ok_since >= 600_000  # from its last answer


def test_retained_freed_blocked_lost_and_replayed_are_counted(topics: TopicStores) -> None:
    purged, lost, silent = topics.topic(100), topics.topic(100), topics.topic(100)
    for topic in (purged, lost):
        topics.map(topic, RegionMapping(region="r1", first=0))
        topics.purge(topic)
    topics.map(silent, "r1")
    topics.flushed(purged, "r1", 39)
    topics.flushed(lost, "r1", 9)
    topics.place.log.delete_before({lost: 50})
    topics.purger.review([purged])
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


@contextmanager
def statements_of(db: Database) -> Iterator[list[str]]:
    """Collect the statements that the database executes meanwhile: one sent with N sets of parameters is N."""
    sent: list[str] = []

    def note(_c: object, _cursor: object, statement: str, parameters: Sized, _context: object, many: bool) -> None:
        sent.extend([statement] * (len(parameters) if many else 1))

    event.listen(db.engine, "before_cursor_execute", note)
    yield sent
    event.remove(db.engine, "before_cursor_execute", note)


def test_a_page_costs_as_many_statements_as_a_topic(topics: TopicStores) -> None:
    """Two more lock several topics in order. Those of the embedded log are not counted."""
    names = [topics.flushed_topic(110, r1=99) for _ in range(101)]
    rounds = PurgeRounds(WalSchedule(topics.db, WAL_SETTINGS), topics.floors, topics.purger, None, 1)
    with statements_of(topics.db) as of_one:
        rounds.purge_page([names.pop()], ())
    with statements_of(topics.db) as of_page:
        page = rounds.purge_page(names, ())

    def of_purge(sent: list[str]) -> int:
        return sum("wal_log" not in s and "wal_entry" not in s for s in sent)

    assert (page.purged, {topics.store.topic(name).floor for name in names}) == (100, {100})
    assert (of_purge(of_one), of_purge(of_page)) == (28, 30)


def test_a_page_leaves_alone_what_has_a_purge_of_its_own(topics: TopicStores) -> None:
    own, locked, purged = (topics.flushed_topic(110, r1=99) for _ in range(3))
    rounds = PurgeRounds(WalSchedule(topics.db, WAL_SETTINGS), topics.floors, topics.purger, None, 1)
    t = topics.db.t.wal_topic
    with topics.db.write() as c:
        c.execute(select(t.c.name).where(t.c.name == locked).with_for_update())
        page = rounds.purge_page([own, locked, purged], {own})

    assert (page.purged, page.running, page.again) == (1, 1, (locked,))
    assert [topics.start(name) for name in (own, locked, purged)] == [0, 0, 99]


def test_a_page_leaves_alone_what_may_not_be_purged(topics: TopicStores) -> None:
    disabled, quarantined, purged, unknown = (topics.flushed_topic(250, r1=99) for _ in range(4))
    topics.store.disable(disabled)
    topics.place.recreate(quarantined)
    topics.place.append(quarantined, 250)
    with topics.db.write() as c:
        c.execute(delete(topics.db.t.wal_topic).where(topics.db.t.wal_topic.c.name == unknown))
    results = topics.purger.purge([disabled, quarantined, purged, unknown])

    assert sorted(results) == sorted([disabled, quarantined, purged])
    assert [topics.start(name) for name in (disabled, quarantined, purged)] == [0, 0, 99]
    assert results[quarantined].verdict.quarantine


@pytest.mark.parametrize("point", ["wal.floor", "wal.deleted", "wal.seen"])
def test_a_page_that_dies_anywhere_is_purged_again(topics: TopicStores, point: str) -> None:
    names = [topics.flushed_topic(250, r1=99) for _ in range(3)]
    with suppress(Crash), installed(crash_at(point)):
        topics.purger.purge(names)
    topics.purger.purge(names)

    assert {topics.start(name) for name in names} == {99}
    assert [topics.store.topic(name).freed for name in names] == [99, 99, 99]
