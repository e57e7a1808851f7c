"""Purging a topic over both databases, on Kafka and on the embedded log: conformance/wal.md."""

from collections.abc import Mapping
from functools import partial

import pytest

from sexton.kernel.crash_points import OF_WAL, installed
from sexton.wal.model import Mode, Why
from sexton.wal.orders import RegionDrop, RegionMapping
from sexton.wal.port import LogFault
from sexton.wal.purger import Purger
from tests.contract.wal.field import DAY, Field
from tests.contract.wal.logs import Gone


def whys(field: Field, topic: str) -> set[Why]:
    return {b.why for b in field.purge(topic).verdict.blocked}


def test_w01_a_topic_without_a_map_is_kept(field: Field) -> None:
    topic = field.topic(10)

    assert whys(field, topic) == {Why.NO_REGIONS}

    assert field.start(topic) == 0


def test_w01_a_topic_is_purged_to_its_end_a_day_after_its_last_region_went(field: Field) -> None:
    topic = field.topic(10)
    field.map(topic, RegionMapping(region="r1", first=0))
    field.map(topic, dropped=(RegionDrop(region="r1", undrop_seconds=60),))
    field.wait(61)

    assert whys(field, topic) == {Why.NO_REGIONS}
    field.wait(DAY - 3_600)
    field.map(topic)
    assert whys(field, topic) == {Why.NO_REGIONS}
    field.wait(3_700)
    done = field.purge(topic)

    assert (done.floor, done.log_start) == (10, 9)


def test_w02_a_region_that_nobody_has_heard_of_blocks_and_is_named(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", "r2")
    field.flushed(topic, "r1", 40)

    done = field.purge(topic)

    assert [b.why for b in done.verdict.blocked] == [Why.SILENT]
    assert "r2" in done.verdict.blocked[0].said
    assert (done.floor, field.start(topic)) == (None, 0)


def test_w07_a_floor_is_persisted_and_all_below_goes_but_one_record(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.flushed(topic, "r1", 120)
    field.flushed(topic, "r2", 99)

    done = field.purge(topic)

    assert (done.floor, done.log_start, done.freed) == (100, 99, 99)
    assert field.place.read(topic, 99)[0] == 99
    with pytest.raises(Gone):
        field.place.read(topic, 98)
    assert field.store.topic(topic).floor == 100


def test_w08_in_logical_mode_the_floor_rises_and_nothing_is_deleted(field: Field) -> None:
    topic = field.topic(250, mode=Mode.LOGICAL)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)

    done = field.purge(topic)

    assert (done.floor, done.log_start) == (100, 0)
    assert field.place.read(topic, 0)[0] == 0
    assert [p.done_at is not None for p in field.store.purges(topic)] == [True]


def test_w09_an_empty_topic_is_left_alone_and_nothing_is_written_down(field: Field) -> None:
    topic = field.topic()
    field.map(topic, RegionMapping(region="r1", first=0))

    done = field.purge(topic)

    assert (done.floor, done.freed, done.fault) == (None, 0, "")
    assert field.store.purges(topic) == []


def test_w11_what_the_log_did_not_answer_is_looked_for_and_written_down_once(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)
    silent = Silent(field)
    purger = Purger(silent, field.floors)

    first = purger.purge([topic])[topic]
    again = field.purge(topic)

    assert (first.fault, first.log_start) == ("", 99)
    assert again.log_start == 99
    assert [(p.floor, p.log_start, p.freed) for p in field.store.purges(topic)] == [(100, 99, 99)]


@pytest.mark.parametrize("point", sorted(OF_WAL))
def test_w12_a_crash_anywhere_is_finished_by_the_next(field: Field, point: str) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)

    with installed(partial(_crash, point)), pytest.raises(Crash):
        field.purge(topic)
    assert field.store.topic(topic).floor == 100
    done = field.purge(topic)

    assert (done.floor, done.log_start) == (100, 99)
    assert [(p.floor, p.done_at is not None) for p in field.store.purges(topic)] == [(100, True)]


def test_w13_what_an_older_epoch_or_a_follower_says_is_ignored(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, RegionMapping(region="r1", epoch=3))
    field.purge(topic)
    field.flushed(topic, "r1", 50, epoch=3)

    told = [field.flushed(topic, "r1", 200, epoch=2), field.flushed(topic, "r1", 200, epoch=3, leader=False)]
    told.append(field.flushed(topic, "r1", 200, epoch=2**62))

    assert [(h.taken, h.ignored) for h in told] == [(0, 1)] * 3
    assert field.purge(topic).floor == 51


def test_w14_two_purges_at_once_do_no_harm(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)

    assert {field.purge(topic).log_start for _ in range(3)} == {99}

    assert len(field.store.purges(topic)) == 1


def test_a_report_above_the_end_waits_for_the_end_and_a_wrong_one_never_counts(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", "r2")
    field.purge(topic)
    field.place.append(topic, 50)

    heard = [field.flushed(topic, "r1", 120), field.flushed(topic, "r2", 2**57)]

    assert [(h.taken, h.waiting) for h in heard] == [(0, 1), (0, 1)]
    assert [b.why for b in field.purge(topic).verdict.blocked] == [Why.SILENT]
    needs = {r.region: r.keep_from for r in field.store.regions(topic)}
    assert needs == {"r1": 121, "r2": None}
    field.flushed(topic, "r2", 30)
    assert field.purge(topic).floor == 31


def test_w21_a_topic_made_anew_is_quarantined_and_keeps_everything(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 99)
    field.place.recreate(topic)
    field.place.append(topic, 300)

    done = field.purge(topic)

    assert "another one now" in done.verdict.quarantine
    assert field.place.read(topic, 0)[0] == 0
    assert "another one now" in field.store.topic(topic).quarantined
    assert "another one now" in field.purge(topic).verdict.quarantine


def test_w21_a_topic_whose_end_moved_back_is_quarantined(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 199)
    before = field.floors.state_before_read([topic])
    facts = field.place.log.facts([topic])[topic]

    cut = field.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)  # type: ignore[union-attr]

    assert "lost its last entries" in cut[topic].quarantine
    assert field.purge(topic).floor is None


def test_what_the_log_said_before_others_learned_more_is_no_reason_for_a_quarantine(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, "r1")
    field.purge(topic)
    before, old = field.floors.state_before_read([topic]), field.place.log.facts([topic])
    field.place.append(topic, 100)
    field.flushed(topic, "r1", 129)
    assert field.purge(topic).floor == 130

    late = field.floors.raise_floors(old, before)[topic]

    assert late.quarantine == ""
    assert field.purge(topic).floor == 130


def test_w21_of_a_topic_made_anew_nothing_is_believed(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 70)
    field.place.recreate(topic)
    field.place.append(topic, 90)

    assert "another one now" in field.purge(topic).verdict.quarantine

    assert [(r.keep_from, r.waits) for r in field.store.regions(topic)] == [(None, 71)]


def test_w27_a_topic_with_two_partitions_and_one_that_is_not_enabled_are_kept(field: Field) -> None:
    two, off = field.topic(partitions=2), field.topic(10)
    field.store.disable(off)
    for topic in (two, off):
        field.map(topic, RegionMapping(region="r1", first=0))

    assert whys(field, two) == {Why.PARTITIONS}
    assert whys(field, off) == {Why.NOT_ENABLED}


def test_why_a_topic_is_kept_is_known_with_since_when(field: Field) -> None:
    topic = field.topic(10)
    field.purge(topic)
    since = field.store.topic(topic).blocked[Why.NO_REGIONS]
    field.wait(100)

    field.purge(topic)

    assert field.store.topic(topic).blocked == {Why.NO_REGIONS: since}
    field.map(topic, RegionMapping(region="r1", first=0))
    field.purge(topic)
    assert field.store.topic(topic).blocked == {}


class Crash(Exception):
    """What ends a process in the middle."""


def _crash(at: str, point: str) -> None:
    if point == at:
        raise Crash(point)


class Silent:
    """A log that does what it is told and answers nothing."""

    def __init__(self, field: Field) -> None:
        self._log = field.place.log
        self.facts, self.check = self._log.facts, self._log.check

    def delete_before(self, offsets: Mapping[str, int]) -> Mapping[str, LogFault]:
        self._log.delete_before(offsets)
        return {name: LogFault(name, "REQUEST_TIMED_OUT", "no answer", passes=True) for name in offsets}
