"""Purges over a log that is slow, does not answer, or changes meanwhile."""

from typing import Any

import pytest

from sexton.wal.model import BlockReason, Mode
from sexton.wal.orders import RegionMapping
from sexton.wal.port import LogFault, ReplayRefused
from sexton.wal.purger import Purger
from tests.integration.wal.fake_logs import InterruptedLog, SlowLog, UnansweringLog, UnreachableLeaderLog
from tests.integration.wal.field import Field


def test_late_answer_does_not_move_the_log_start_back(field: Field) -> None:
    topic = field.mapped_topic(200)
    field.flushed(topic, "r1", 49)
    before, late = field.floors.state_before_read([topic]), field.place.log.facts([topic])
    field.place.log.delete_before({topic: 80})
    field.purge(topic)

    field.floors.raise_floors(late, before)

    with pytest.raises(ReplayRefused, match=r"50\.\.79"):
        field.open(topic, "r1", 49)


def test_slow_log_gets_no_delete_request(field: Field) -> None:
    topic = field.mapped_topic(250)
    field.flushed(topic, "r1", 99)
    clock = [0.0]

    def meanwhile() -> None:
        clock[0] += 39
        field.place.recreate(topic)
        field.place.append(topic, 250)

    Purger(InterruptedLog(field.place, meanwhile), field.floors, lambda: clock[0]).purge([topic])

    assert field.start(topic) == 0


def test_topic_added_during_a_purge_waits_for_the_next(field: Field) -> None:
    topic, new = field.topic(10), field.place.topic()

    class Floors:
        def __getattr__(self, name: str) -> Any:
            return getattr(field.floors, name)

        def raise_floors(self, *arguments: Any) -> Any:
            verdicts = field.floors.raise_floors(*arguments)
            field.store.enable(new, Mode.DELETE)
            return verdicts

    assert list(Purger(field.place.log, Floors()).purge([topic, new])) == [topic]  # type: ignore[arg-type]


def test_fault_does_not_restart_the_age_of_a_block(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1")  # never reports: blocked
    field.purge(topic)
    since = field.store.topic(topic).blocked[BlockReason.SILENT]
    for _ in range(4):  # once in five hours Kafka does not answer
        field.wait(5 * 3_600)
        field.floors.raise_floors(
            {topic: LogFault(topic, "_TIMED_OUT", "x", passes=True)}, field.floors.state_before_read([topic])
        )
        field.wait(1_800)
        field.purge(topic)

    assert field.store.topic(topic).blocked[BlockReason.SILENT] == since


def test_topic_disabled_before_the_delete_is_not_purged(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    field.flushed(topic, "r1", 89)
    clock = [0.0]
    slow = SlowLog(field.place, clock, lambda: field.store.disable(topic))

    Purger(slow, field.floors, lambda: clock[0]).purge([topic])  # type: ignore[arg-type]

    assert field.start(topic) == 0


def test_unreachable_leader_delays_no_other_topic(field: Field) -> None:
    near, far = field.topic(100), field.topic(100)
    for topic in (near, far):
        field.map(topic, RegionMapping(region="r1", first=0))
        field.purge(topic)
        field.flushed(topic, "r1", 89)
    clock = [0.0]

    done = Purger(UnreachableLeaderLog(field.place, clock, far), field.floors, lambda: clock[0]).purge([near, far])  # type: ignore[arg-type]

    assert (done[near].fault, field.start(near)) == ("", 89)
    assert ("does not answer" in done[far].fault, field.start(far)) == (True, 0)


def test_w11_unanswered_delete_is_verified_and_recorded_once(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)
    silent = UnansweringLog(field.place)
    purger = Purger(silent, field.floors)

    first = purger.purge([topic])[topic]
    again = field.purge(topic)

    assert (first.fault, first.log_start) == ("", 99)
    assert again.log_start == 99
    assert [(p.floor, p.log_start, p.freed) for p in field.store.purges(topic)] == [(100, 99, 99)]
