"""Ways in which a topic lost what a region needs, or was never purged again; each was reproduced, then mended."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from sexton.wal.model import Facts, KeepFromSource, Mode
from sexton.wal.orders import LeaderReport, RegionDrop, RegionMapping, Stream
from sexton.wal.port import LogFault, OldEpoch, OldMap, ReplayRefused
from sexton.wal.purger import Purger
from tests.contract.wal.field import Field
from tests.contract.wal.logs import Place


class Meanwhile:
    """A log, and what happens right after it was asked for the first time."""

    def __init__(self, place: Place, do: Callable[[], None]) -> None:
        self._log, self._do = place.log, [do]
        self.delete_before, self.check = self._log.delete_before, self._log.check

    def facts(self, topics: Sequence[str]) -> Mapping[str, Facts | LogFault]:
        told = self._log.facts(topics)
        if self._do:
            self._do.pop()()
        return told


def hear(field: Field, topic: str, region: str, *streams: Stream, epoch: int = 0) -> None:
    field.heartbeats.hear("n", [LeaderReport(topic=topic, region=region, epoch=epoch, streams=streams)])


def mapped(field: Field, entries: int, *regions: str | RegionMapping) -> str:
    """Make a topic that was seen once."""
    topic = field.topic(entries)
    field.map(topic, *(regions or (RegionMapping(region="r1", first=0),)))
    field.purge(topic)
    return topic


def test_a_region_that_came_back_and_left_again_while_the_log_was_asked_has_newer_entries(field: Field) -> None:
    topic = mapped(field, 100, "r1", "r2")
    field.flushed(topic, "r1", None, idle=99)
    field.flushed(topic, "r2", None, idle=99)
    field.map(topic, "r2", moved=("r1",))

    def meanwhile() -> None:
        field.map(topic, "r1", "r2")
        field.place.append(topic, 10)  # of r1, in memory only
        field.map(topic, "r2", moved=("r1",))

    Purger(Meanwhile(field.place, meanwhile), field.floors).purge([topic])
    field.flushed(topic, "r2", None, idle=109)
    for _ in range(2):
        field.purge(topic)

    assert "r1" in [r.region for r in field.store.regions(topic)]
    assert field.start(topic) <= 100


@pytest.mark.parametrize("how", ["moved", "dropped"])
def test_a_region_that_went_before_its_topic_was_known_blocks(field: Field, how: str) -> None:
    topic = field.topic(100)
    if how == "moved":
        field.map(topic, "r2", moved=("r1",))
    else:
        field.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
    field.purge(topic)
    field.flushed(topic, "r2", 89)

    done = field.purge(topic)

    assert "r1" in done.verdict.blocked[0].said
    assert field.start(topic) == 0


def test_what_moved_and_was_let_go_does_not_block_when_it_is_named_again(field: Field) -> None:
    topic = mapped(field, 100, "r1", "r2")
    field.flushed(topic, "r1", None, idle=99)
    field.flushed(topic, "r2", 59)
    for _ in range(3):
        field.map(topic, "r2", moved=("r1",))
        field.purge(topic)

    assert field.purge(topic).floor == 60
    assert [r.region for r in field.store.regions(topic)] == ["r2"]


def test_a_second_drop_has_its_own_window(field: Field) -> None:
    topic = mapped(field, 100, "r1", "r2")
    field.flushed(topic, "r1", 9)
    field.flushed(topic, "r2", 89)
    for seconds in (3_000, 700):
        field.map(topic, "r2", dropped=(RegionDrop(region="r1", undrop_seconds=3_600),))
        field.wait(seconds)

    assert field.purge(topic).floor == 10


def test_a_manifest_of_an_earlier_life_hides_nothing(field: Field) -> None:
    topic = mapped(field, 100, RegionMapping(region="r1", first=0), "r2")
    field.flushed(topic, "r2", 29)
    hear(field, topic, "r1", Stream(flushed=99, idle=99))
    field.map(topic, "r2", moved=("r1",))
    for _ in range(2):
        field.purge(topic)
    assert [r.region for r in field.store.regions(topic)] == ["r2"]
    field.place.append(topic, 50)
    field.map(topic, RegionMapping(region="r1", epoch=1, first=150), "r2")

    assert field.open(topic, "r1", 49, epoch=2).start == 50


def test_the_epoch_of_a_newer_map_ends_what_the_old_leader_says(field: Field) -> None:
    topic = mapped(field, 100, RegionMapping(region="r1", epoch=3, first=100))
    field.map(topic, RegionMapping(region="r1", epoch=4, first=100))
    field.place.append(topic, 50)
    field.purge(topic)

    told = field.flushed(topic, "r1", None, idle=149, epoch=3)

    assert told.ignored == 1
    field.purge(topic)
    assert field.start(topic) <= 100


@pytest.mark.parametrize("epoch", [1, 2**62, 2**64])
def test_a_report_cannot_raise_its_epoch(field: Field, epoch: int) -> None:
    topic = mapped(field, 100)
    field.flushed(topic, "r1", 80, epoch=epoch)

    told = field.flushed(topic, "r1", 89)

    assert told.taken == 1
    assert field.purge(topic).floor == 90


@pytest.mark.parametrize("wrong", [2**63 - 1, 2**63, 2**64 - 1, 2**70])
def test_a_number_that_cannot_be_spoils_nothing_else(field: Field, wrong: int) -> None:
    topic, other = mapped(field, 100), mapped(field, 100, RegionMapping(region="r2", first=0))
    reports = [
        LeaderReport(topic=topic, region="r1", epoch=0, streams=(Stream(flushed=wrong),)),
        LeaderReport(topic=other, region="r2", epoch=0, streams=(Stream(flushed=49),)),
    ]

    heard = field.heartbeats.hear("n", reports)

    assert (heard.taken, heard.ignored) == (1, 1)
    assert field.purger.purge([topic, other])[other].floor == 50
    assert field.open(topic, "r1", None).start == 0


def test_of_a_topic_made_anew_no_region_is_let_go(field: Field) -> None:
    topic = mapped(field, 100, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.flushed(topic, "r1", 39)
    field.map(topic, "r2", moved=("r1",))
    field.place.recreate(topic)
    field.place.append(topic, 5)

    assert field.purge(topic).verdict.quarantine

    with pytest.raises(ReplayRefused, match="quarantined"):
        field.open(topic, "r1", 39)


def test_a_report_that_is_replaced_each_time_before_it_counts_counts(field: Field) -> None:
    topic = mapped(field, 1)

    def meanwhile() -> None:
        end = field.place.append(topic, 1)
        field.flushed(topic, "r1", None, idle=end)

    for _ in range(5):
        field.place.append(topic, 10)
        Purger(Meanwhile(field.place, meanwhile), field.floors).purge([topic])

    assert (field.store.topic(topic).floor or 0) > 10


def test_an_end_that_moved_back_is_seen_though_nobody_had_flushed_so_far(field: Field) -> None:
    topic = mapped(field, 250)
    field.flushed(topic, "r1", 99)
    field.purge(topic)
    before, facts = field.floors.state_before_read([topic]), field.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)

    cut = field.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)

    assert "lost its last entries" in cut[topic].quarantine


def test_of_a_quarantined_topic_nothing_counts_though_it_has_grown_since(field: Field) -> None:
    topic = mapped(field, 250)
    before, facts = field.floors.state_before_read([topic]), field.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)
    field.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)
    field.flushed(topic, "r1", 259)
    field.place.append(topic, 50)

    assert field.purge(topic).verdict.quarantine

    assert [(r.keep_from, r.waits) for r in field.store.regions(topic)] == [(0, 260)]
    assert field.store.topic(topic).log_end == 250


def test_a_late_answer_does_not_take_the_log_start_back(field: Field) -> None:
    topic = mapped(field, 200)
    field.flushed(topic, "r1", 49)
    before, late = field.floors.state_before_read([topic]), field.place.log.facts([topic])
    field.place.log.delete_before({topic: 80})
    field.purge(topic)

    field.floors.raise_floors(late, before)

    with pytest.raises(ReplayRefused, match=r"50\.\.79"):
        field.open(topic, "r1", 49)


def test_a_log_that_answers_slowly_is_told_nothing(field: Field) -> None:
    topic = mapped(field, 250)
    field.flushed(topic, "r1", 99)
    clock = [0.0]

    def meanwhile() -> None:
        clock[0] += 39
        field.place.recreate(topic)
        field.place.append(topic, 250)

    Purger(Meanwhile(field.place, meanwhile), field.floors, lambda: clock[0]).purge([topic])

    assert field.start(topic) == 0


def test_a_topic_that_becomes_known_in_the_middle_is_for_the_next_round(field: Field) -> None:
    topic, new = field.topic(10), field.place.topic()

    class Floors:
        def __getattr__(self, name: str) -> Any:
            return getattr(field.floors, name)

        def raise_floors(self, *given: Any) -> Any:
            told = field.floors.raise_floors(*given)
            field.store.enable(new, Mode.DELETE)
            return told

    assert list(Purger(field.place.log, Floors()).purge([topic, new])) == [topic]  # type: ignore[arg-type]


def test_what_went_at_once_is_told_once(field: Field) -> None:
    topic = mapped(field, 250)
    for last in (49, 99):
        field.flushed(topic, "r1", last)
        field.floors.raise_floors(field.place.log.facts([topic]), field.floors.state_before_read([topic]))

    field.purge(topic)

    assert [(p.floor, p.freed) for p in field.store.purges(topic)] == [(100, 99), (50, 0)]


def test_the_first_entry_is_flushed_not_idle(field: Field) -> None:
    topic = mapped(field, 10, "r1")

    field.flushed(topic, "r1", 0)

    assert field.store.regions(topic)[0].source is KeepFromSource.FLUSHED


def test_a_generation_has_one_map(field: Field) -> None:
    topic = mapped(field, 10)
    field._generation -= 1
    with pytest.raises(OldMap, match="another map of generation"):
        field.map(topic, dropped=(RegionDrop(region="r1"),))

    field._generation -= 1
    field.map(topic, RegionMapping(region="r1", first=0))


def test_a_map_ends_the_epochs_below_its_own(field: Field) -> None:
    topic = mapped(field, 10)
    field.map(topic, RegionMapping(region="r1", epoch=5))

    with pytest.raises(OldEpoch):
        field.open(topic, "r1", None, epoch=4)
