"""A topic that was recreated, or lost its last entries, is quarantined; nothing else quarantines one (W21)."""

import pytest

from sexton.wal.model import Facts
from sexton.wal.policy import RegionMapping
from sexton.wal.port import ReplayRefused, Step
from tests.integration.wal.conftest import ON_BOTH_LOGS
from tests.integration.wal.topic_stores import TopicStores


def quarantine_of_end(topics: TopicStores, topic: str, end: int) -> str:
    """Let a topic end at an entry; return why it is quarantined then."""
    before, facts = topics.floors.state_before_read([topic]), topics.place.log.facts([topic])[topic]
    assert isinstance(facts, Facts)
    return topics.floors.judge({topic: facts.model_copy(update={"end": end})}, before, Step.RAISE)[topic].quarantine


@ON_BOTH_LOGS
def test_w21_recreated_topic_is_quarantined_and_keeps_all(topics: TopicStores) -> None:
    topic = topics.mapped_topic(250, *(RegionMapping(region=region, first=0) for region in ("r1", "r2", "r3")))
    topics.flushed(topic, "r1", 39)
    topics.flushed(topic, "r2", 99)
    topics.flushed(topic, "r3", 270)  # above the known end
    topics.map(topic, "r2", "r3", moved=("r1",))
    topics.place.recreate(topic)
    topics.place.append(topic, 300)

    verdicts = [topics.purge(topic).verdict.quarantine for _ in range(2)]

    for reason in (*verdicts, topics.store.topic(topic).quarantined):
        assert "another one now" in reason
    assert topics.place.read(topic, 0)[0] == 0
    needs = {r.region: (r.keep_from, r.pending_keep_from) for r in topics.store.regions(topic)}
    assert needs == {"r1": (40, None), "r2": (100, None), "r3": (0, 271)}
    with pytest.raises(ReplayRefused, match="quarantined"):
        topics.open(topic, "r1", 39)


def test_w21_topic_whose_end_moved_back_is_quarantined(topics: TopicStores) -> None:
    below, above = topics.flushed_topic(250, r1=199), topics.flushed_topic(250, r1=99)
    topics.purge(above)

    for topic in (below, above):
        assert "lost its last entries" in quarantine_of_end(topics, topic, 150)

    assert topics.purge(below).floor is None
    topics.flushed(above, "r1", 259)
    topics.place.append(above, 50)
    assert topics.purge(above).verdict.quarantine
    assert [(r.keep_from, r.pending_keep_from) for r in topics.store.regions(above)] == [(100, 260)]
    assert topics.store.topic(above).log_end == 250


def test_impossible_manifest_or_old_answer_quarantines_nothing(topics: TopicStores) -> None:
    topic = topics.mapped_topic(100, "r1", RegionMapping(region="r2", first=0))
    topics.flushed(topic, "r2", 89)
    topics.open(topic, "r1", 10**15)
    assert topics.purge(topic).verdict.quarantine == ""

    outdated = topics.mapped_topic(50, "r1")
    before, old = topics.floors.state_before_read([outdated]), topics.place.log.facts([outdated])
    topics.place.append(outdated, 100)
    topics.flushed(outdated, "r1", 129)
    assert topics.purge(outdated).floor == 130
    assert topics.floors.judge(old, before, Step.RAISE)[outdated].quarantine == ""
    assert topics.purge(outdated).floor == 130
