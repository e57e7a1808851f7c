"""A purge deletes exactly the entries that no region needs (W01 to W27), also of a log that is slow or changing."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.operators.controls.model import ALL, ControlKind
from sexton.operators.controls.store import ControlStore
from sexton.operators.registry.store import Registry
from sexton.wal.model import BlockReason, Mode
from sexton.wal.policy import RegionDrop, RegionMapping
from sexton.wal.port import LogFault, ReplayRefused, Step
from sexton.wal.purger import Purger
from tests.integration.wal.conftest import ON_BOTH_LOGS
from tests.integration.wal.fake_logs import SLOW_SECONDS, InterruptedLog, SlowLog, UnansweringLog
from tests.integration.wal.logs import EntryGone
from tests.integration.wal.topic_stores import DAY, TopicStores
from tests.support.crashes import OF_WAL, Crash, crash_at


def block_reasons(topics: TopicStores, topic: str) -> set[BlockReason]:
    return {b.why for b in topics.purge(topic).verdict.blocked}


def test_w01_topic_without_a_region_is_purged_only_after_a_day(topics: TopicStores) -> None:
    topic = topics.topic(10)
    topics.purge(topic)
    since = topics.store.topic(topic).blocked[BlockReason.NO_REGIONS]
    topics.wait(100)
    topics.purge(topic)
    assert topics.store.topic(topic).blocked == {BlockReason.NO_REGIONS: since}
    topics.map(topic, RegionMapping(region="r1", first=0))
    topics.purge(topic)
    assert topics.store.topic(topic).blocked == {}
    topics.map(topic, dropped=(RegionDrop(region="r1", undrop_seconds=60),))
    topics.wait(61)

    assert block_reasons(topics, topic) == {BlockReason.NO_REGIONS}
    topics.wait(DAY - 3_600)
    topics.map(topic)
    assert block_reasons(topics, topic) == {BlockReason.NO_REGIONS}
    assert topics.start(topic) == 0
    topics.wait(3_700)
    done = topics.purge(topic)

    assert (done.floor, done.log_start) == (10, 9)


def test_w02_region_without_a_report_blocks_and_is_named(topics: TopicStores) -> None:
    topic = topics.topic(100)
    topics.map(topic, "r1", "r2")
    topics.flushed(topic, "r1", 40)

    done = topics.purge(topic)

    assert [b.why for b in done.verdict.blocked] == [BlockReason.SILENT]
    assert "r2" in done.verdict.blocked[0].said
    assert (done.floor, topics.start(topic)) == (None, 0)


@ON_BOTH_LOGS
def test_w07_w14_all_below_the_floor_but_one_is_deleted_once(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=120, r2=99)

    done = topics.purge(topic)

    assert (done.floor, done.log_start, done.freed) == (100, 99, 99)
    assert topics.place.read(topic, 99)[0] == 99
    with pytest.raises(EntryGone):
        topics.place.read(topic, 98)
    assert topics.store.topic(topic).floor == 100
    assert {topics.purge(topic).log_start for _ in range(2)} == {99}
    assert len(topics.store.purges(topic)) == 1


def test_w08_logical_mode_raises_the_floor_and_deletes_nothing(topics: TopicStores) -> None:
    topic = topics.topic(250, mode=Mode.LOGICAL)
    topics.map(topic, "r1")
    topics.purge(topic)
    topics.flushed(topic, "r1", 99)

    done = topics.purge(topic)

    assert (done.floor, done.log_start) == (100, 0)
    assert topics.place.read(topic, 0)[0] == 0
    assert [p.done_at is not None for p in topics.store.purges(topic)] == [True]


def test_w09_empty_topic_is_not_purged_and_not_recorded(topics: TopicStores) -> None:
    topic = topics.topic()
    topics.map(topic, RegionMapping(region="r1", first=0))

    done = topics.purge(topic)

    assert (done.floor, done.freed, done.fault) == (None, 0, "")
    assert topics.store.purges(topic) == []


@ON_BOTH_LOGS
def test_w12_next_purge_finishes_after_a_crash_at_any_point(topics: TopicStores, subtests: pytest.Subtests) -> None:
    for point in sorted(OF_WAL):
        with subtests.test(point=point):
            topic = topics.flushed_topic(250, r1=99)

            with installed(crash_at(point)), pytest.raises(Crash):
                topics.purge(topic)
            assert topics.store.topic(topic).floor == 100
            done = topics.purge(topic)

            assert (done.floor, done.log_start) == (100, 99)
            assert [(p.floor, p.done_at is not None) for p in topics.store.purges(topic)] == [(100, True)]


def test_w27_disabled_or_partitioned_topic_is_not_purged(topics: TopicStores) -> None:
    two, off = topics.topic(partitions=2), topics.topic(10)
    topics.store.disable(off)
    for topic in (two, off):
        topics.map(topic, RegionMapping(region="r1", first=0))

    assert block_reasons(topics, two) == {BlockReason.PARTITIONS}
    assert block_reasons(topics, off) == {BlockReason.NOT_ENABLED}


def test_freed_entries_are_counted_by_one_purge(topics: TopicStores) -> None:
    topic = topics.mapped_topic(200)
    for last in (99, 149):  # two purges raise, before either deletes
        topics.flushed(topic, "r1", last)
        topics.floors.judge(topics.place.log.facts([topic]), topics.floors.state_before_read([topic]), Step.RAISE)
    for offset in (99, 149):
        topics.place.log.delete_before({topic: offset})
        topics.floors.record_log_state(topics.place.log.facts([topic]))

    assert [p.freed for p in topics.store.purges(topic)] == [50, 99]
    assert topics.store.topic(topic).freed == 149


def test_stop_blocks_deletion_below_a_persisted_floor(topics: TopicStores) -> None:
    topic = topics.flushed_topic(100, r1=49)
    before = topics.floors.state_before_read([topic])
    topics.floors.judge(topics.place.log.facts([topic]), before, Step.RAISE)
    controls = ControlStore(topics.db)
    controls.put(ControlKind.STOP, ALL, "a test", "the tester")

    stopped = topics.purge(topic)
    start_while_stopped = topics.start(topic)
    controls.remove(ControlKind.STOP, ALL)
    topics.purge(topic)

    assert [b.why for b in stopped.verdict.blocked] == [BlockReason.STOPPED]
    assert (start_while_stopped, topics.start(topic)) == (0, 49)


def test_stop_of_an_instance_stops_its_topics_alone_at_once(topics: TopicStores, db: Database) -> None:
    topic = topics.flushed_topic(100, r1=49)
    for name in ("shop", "lake"):
        Registry(db).add_instance(name)
    controls = ControlStore(db)

    with installed(lambda point: point == "wal.floor" and controls.put(ControlKind.STOP, "shop", "a test", "tom")):
        between_floor_and_deletion = topics.purge(topic)
    stopped = topics.purge(topic)
    controls.remove(ControlKind.STOP, "shop")
    controls.put(ControlKind.STOP, "lake", "a test", "tom")

    assert (between_floor_and_deletion.floor, between_floor_and_deletion.freed) == (50, 0)
    assert ([b.why for b in stopped.verdict.blocked], stopped.freed) == ([BlockReason.STOPPED], 0)
    assert "shop is stopped by tom: a test" in stopped.verdict.blocked[0].said
    assert topics.purge(topic).freed == 49


def test_late_answer_does_not_move_the_log_start_back(topics: TopicStores) -> None:
    topic = topics.flushed_topic(200, r1=49)
    before, late = topics.floors.state_before_read([topic]), topics.place.log.facts([topic])
    topics.place.log.delete_before({topic: 80})
    topics.purge(topic)

    topics.floors.judge(late, before, Step.RAISE)

    with pytest.raises(ReplayRefused, match=r"50\.\.79"):
        topics.open(topic, "r1", 49)


def test_fault_does_not_restart_the_age_of_a_block(topics: TopicStores) -> None:
    topic = topics.topic(100)
    topics.map(topic, "r1")  # never reports: blocked
    topics.purge(topic)
    since = topics.store.topic(topic).blocked[BlockReason.SILENT]
    for _ in range(4):  # once in five hours Kafka does not answer
        topics.wait(5 * 3_600)
        topics.floors.judge(
            {topic: LogFault(topic, "_TIMED_OUT", "x", passes=True)},
            topics.floors.state_before_read([topic]),
            Step.RAISE,
        )
        topics.wait(1_800)
        topics.purge(topic)

    assert topics.store.topic(topic).blocked[BlockReason.SILENT] == since


def test_slow_log_gets_no_request_to_delete(topics: TopicStores) -> None:
    recreated, disabled = topics.flushed_topic(250, r1=99), topics.flushed_topic(100, r1=89)
    clock = [0.0]

    def meanwhile() -> None:
        clock[0] += SLOW_SECONDS
        topics.place.recreate(recreated)
        topics.place.append(recreated, 250)

    interrupted = InterruptedLog(topics.place, meanwhile)
    slow = SlowLog(topics.place, clock, lambda: topics.store.disable(disabled))
    for log, topic in ((interrupted, recreated), (slow, disabled)):
        Purger(log, topics.floors, lambda: clock[0]).purge([topic])  # type: ignore[arg-type]

        assert topics.start(topic) == 0


def test_w11_unanswered_delete_is_verified_and_recorded_once(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=99)

    first = Purger(UnansweringLog(topics.place), topics.floors).purge([topic])[topic]
    again = topics.purge(topic)

    assert (first.fault, first.log_start) == ("", 99)
    assert again.log_start == 99
    assert [(p.floor, p.log_start, p.freed) for p in topics.store.purges(topic)] == [(100, 99, 99)]


@ON_BOTH_LOGS
def test_w22_a_refusal_in_the_middle_of_a_page_is_its_own(topics: TopicStores) -> None:
    first, refused, last = (topics.topic(20, compacted=n == 1) for n in range(3))
    for name in (first, refused, last):
        topics.map(name, RegionMapping(region="r1", first=0))
        topics.purge(name)
        topics.flushed(name, "r1", 9)

    page = topics.purger.purge([first, refused, last])

    assert ["POLICY_VIOLATION" in page[name].fault for name in (first, refused, last)] == [False, True, False]
    assert [topics.start(name) for name in (first, refused, last)] == [9, 0, 9]
    assert "POLICY_VIOLATION" in topics.store.topic(refused).fault
