"""A recreated or truncated topic is not purged, and no report counts for it."""

import pytest

from sexton.wal.model import Facts
from sexton.wal.orders import RegionMapping
from sexton.wal.port import ReplayRefused
from tests.integration.wal.conftest import ON_BOTH_LOGS
from tests.integration.wal.topic_stores import TopicStores


@ON_BOTH_LOGS
def test_recreated_topic_releases_no_region(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, RegionMapping(region="r1", first=0), RegionMapping(region="r2", first=0))
    topics.flushed(topic, "r1", 39)
    topics.map(topic, "r2", moved=("r1",))
    topics.place.recreate(topic)
    topics.place.append(topic, 5)

    assert topics.purge(topic).verdict.quarantine

    with pytest.raises(ReplayRefused, match="quarantined"):
        topics.open(topic, "r1", 39)


def test_end_that_moved_back_is_seen_above_all_flushes(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=99)
    topics.purge(topic)
    before, facts = topics.floors.state_before_read([topic]), topics.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)

    cut = topics.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)

    assert "lost its last entries" in cut[topic].quarantine


def test_quarantined_topic_counts_no_report_after_it_grew(topics: TopicStores) -> None:
    topic = topics.mapped_topic(250)
    before, facts = topics.floors.state_before_read([topic]), topics.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)
    topics.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)
    topics.flushed(topic, "r1", 259)
    topics.place.append(topic, 50)

    assert topics.purge(topic).verdict.quarantine

    assert [(r.keep_from, r.pending_keep_from) for r in topics.store.regions(topic)] == [(0, 260)]
    assert topics.store.topic(topic).log_end == 250


def test_impossible_manifest_quarantines_no_topic(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, "r1", RegionMapping(region="r2", first=0))
    topics.flushed(topic, "r2", 89)
    topics.open(topic, "r1", 10**15)

    assert topics.purge(topic).verdict.quarantine == ""


@ON_BOTH_LOGS
def test_w21_recreated_topic_is_quarantined_and_keeps_all(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=99)
    topics.place.recreate(topic)
    topics.place.append(topic, 300)

    done = topics.purge(topic)

    assert "another one now" in done.verdict.quarantine
    assert topics.place.read(topic, 0)[0] == 0
    assert "another one now" in topics.store.topic(topic).quarantined
    assert "another one now" in topics.purge(topic).verdict.quarantine


@ON_BOTH_LOGS
def test_w21_topic_whose_end_moved_back_is_quarantined(topics: TopicStores) -> None:
    topic = topics.flushed_topic(250, r1=199)
    before = topics.floors.state_before_read([topic])
    facts = topics.place.log.facts([topic])[topic]

    cut = topics.floors.raise_floors({topic: facts.model_copy(update={"end": 150})}, before)  # type: ignore[union-attr]

    assert "lost its last entries" in cut[topic].quarantine
    assert topics.purge(topic).floor is None


def test_outdated_answer_of_the_log_quarantines_nothing(topics: TopicStores) -> None:
    topic = topics.mapped_topic(50, "r1")
    before, old = topics.floors.state_before_read([topic]), topics.place.log.facts([topic])
    topics.place.append(topic, 100)
    topics.flushed(topic, "r1", 129)
    assert topics.purge(topic).floor == 130

    late = topics.floors.raise_floors(old, before)[topic]

    assert late.quarantine == ""
    assert topics.purge(topic).floor == 130


@ON_BOTH_LOGS
def test_w21_recreated_topic_counts_no_report(topics: TopicStores) -> None:
    topic = topics.flushed_topic(50, r1=70)
    topics.place.recreate(topic)
    topics.place.append(topic, 90)

    assert "another one now" in topics.purge(topic).verdict.quarantine

    assert [(r.keep_from, r.pending_keep_from) for r in topics.store.regions(topic)] == [(None, 71)]
