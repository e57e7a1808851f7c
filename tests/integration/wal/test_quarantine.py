"""Topics that were recreated or truncated: nothing is purged, and no report counts."""

import pytest

from sexton.wal.model import Facts
from sexton.wal.orders import RegionMapping
from sexton.wal.port import ReplayRefused
from tests.integration.wal.field import Field


def test_recreated_topic_releases_no_region(field: Field) -> None:
    topic = field.mapped_topic(100, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    field.flushed(topic, "r1", 39)
    field.map(topic, "r2", moved=("r1",))
    field.place.recreate(topic)
    field.place.append(topic, 5)

    assert field.purge(topic).verdict.quarantine

    with pytest.raises(ReplayRefused, match="quarantined"):
        field.open(topic, "r1", 39)


def test_end_that_moved_back_is_seen_above_all_flushes(field: Field) -> None:
    topic = field.mapped_topic(250)
    field.flushed(topic, "r1", 99)
    field.purge(topic)
    before, facts = field.floors.state_before_read([topic]), field.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)

    cut = field.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)

    assert "lost its last entries" in cut[topic].quarantine


def test_quarantined_topic_counts_no_report_after_it_grew(field: Field) -> None:
    topic = field.mapped_topic(250)
    before, facts = field.floors.state_before_read([topic]), field.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)
    field.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)
    field.flushed(topic, "r1", 259)
    field.place.append(topic, 50)

    assert field.purge(topic).verdict.quarantine

    assert [(r.keep_from, r.pending_keep_from) for r in field.store.regions(topic)] == [(0, 260)]
    assert field.store.topic(topic).log_end == 250


def test_impossible_manifest_quarantines_no_topic(field: Field) -> None:
    topic = field.topic(100)
    field.map(topic, "r1", RegionMapping(region="r2", first=0))
    field.purge(topic)
    field.flushed(topic, "r2", 89)
    field.open(topic, "r1", 10**15)

    assert field.purge(topic).verdict.quarantine == ""


def test_w21_recreated_topic_is_quarantined_and_keeps_all(field: Field) -> None:
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


def test_w21_topic_whose_end_moved_back_is_quarantined(field: Field) -> None:
    topic = field.topic(250)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 199)
    before = field.floors.state_before_read([topic])
    facts = field.place.log.facts([topic])[topic]

    cut = field.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)  # type: ignore[union-attr]

    assert "lost its last entries" in cut[topic].quarantine
    assert field.purge(topic).floor is None


def test_outdated_answer_of_the_log_quarantines_nothing(field: Field) -> None:
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


def test_w21_recreated_topic_counts_no_report(field: Field) -> None:
    topic = field.topic(50)
    field.map(topic, "r1")
    field.purge(topic)
    field.flushed(topic, "r1", 70)
    field.place.recreate(topic)
    field.place.append(topic, 90)

    assert "another one now" in field.purge(topic).verdict.quarantine

    assert [(r.keep_from, r.pending_keep_from) for r in field.store.regions(topic)] == [(None, 71)]
