"""A purge survives a log that is slow, silent or changing."""

from typing import Any

import pytest

from sexton.wal.model import BlockReason, Mode
from sexton.wal.orders import RegionMapping
from sexton.wal.port import LogFault, ReplayRefused
from sexton.wal.purger import Purger
from tests.integration.wal.fake_logs import InterruptedLog, SlowLog, UnansweringLog, UnreachableLeaderLog
from tests.integration.wal.topic_stores import TopicStores


def test_late_answer_does_not_move_the_log_start_back(topics: TopicStores) -> None:
    topic = topics.flushed_topic(200, r1=49)
    before, late = topics.floors.state_before_read([topic]), topics.place.log.facts([topic])
    topics.place.log.delete_before({topic: 80})
    topics.purge(topic)

    topics.floors.raise_floors(late, before)

    with pytest.raises(ReplayRefused, match=r"50\.\.79"):
        topics.open(topic, "r1", 49)


def test_slow_log_gets_no_delete_request(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=99)
    clock = [0.0]

    def meanwhile() -> None:
        clock[0] += 39
        topics.place.recreate(topic)
        topics.place.append(topic, 250)

    Purger(InterruptedLog(topics.place, meanwhile), topics.floors, lambda: clock[0]).purge([topic])

    assert topics.start(topic) == 0


def test_topic_added_during_a_purge_waits_for_the_next(topics: TopicStores) -> None:
    topic, new = topics.topic(10), topics.place.topic()

    class Floors:
        def __getattr__(self, name: str) -> Any:
            return getattr(topics.floors, name)

        def raise_floors(self, *arguments: Any) -> Any:
            verdicts = topics.floors.raise_floors(*arguments)
            topics.store.enable(new, Mode.DELETE, "shop")
            return verdicts

    assert list(Purger(topics.place.log, Floors()).purge([topic, new])) == [topic]  # type: ignore[arg-type]


def test_fault_does_not_restart_the_age_of_a_block(topics: TopicStores) -> None:
    topic = topics.topic(100)
    topics.map(topic, "r1")  # never reports: blocked
    topics.purge(topic)
    since = topics.store.topic(topic).blocked[BlockReason.SILENT]
    for _ in range(4):  # once in five hours Kafka does not answer
        topics.wait(5 * 3_600)
        topics.floors.raise_floors(
            {topic: LogFault(topic, "_TIMED_OUT", "x", passes=True)}, topics.floors.state_before_read([topic])
        )
        topics.wait(1_800)
        topics.purge(topic)

    assert topics.store.topic(topic).blocked[BlockReason.SILENT] == since


def test_topic_disabled_before_the_delete_is_not_purged(topics: TopicStores) -> None:
    topic = topics.flushed_topic(100, r1=89)
    clock = [0.0]
    slow = SlowLog(topics.place, clock, lambda: topics.store.disable(topic))

    Purger(slow, topics.floors, lambda: clock[0]).purge([topic])  # type: ignore[arg-type]

    assert topics.start(topic) == 0


def test_unreachable_leader_delays_no_other_topic(topics: TopicStores) -> None:
    near, far = topics.topic(100), topics.topic(100)
    for topic in (near, far):
        topics.map(topic, RegionMapping(region="r1", first=0))
        topics.purge(topic)
        topics.flushed(topic, "r1", 89)
    clock = [0.0]

    done = Purger(UnreachableLeaderLog(topics.place, clock, far), topics.floors, lambda: clock[0]).purge([near, far])  # type: ignore[arg-type]

    assert (done[near].fault, topics.start(near)) == ("", 89)
    assert ("does not answer" in done[far].fault, topics.start(far)) == (True, 0)


def test_w11_unanswered_delete_is_verified_and_recorded_once(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=99)
    silent = UnansweringLog(topics.place)
    purger = Purger(silent, topics.floors)

    first = purger.purge([topic])[topic]
    again = topics.purge(topic)

    assert (first.fault, first.log_start) == ("", 99)
    assert again.log_start == 99
    assert [(p.floor, p.log_start, p.freed) for p in topics.store.purges(topic)] == [(100, 99, 99)]
