"""Apache Kafka and the embedded log behave alike."""

import pytest

from sexton.kernel.errors import BadInput
from sexton.wal.kafka import KafkaLog
from sexton.wal.model import Facts
from sexton.wal.port import LogFault
from tests.integration.wal.conftest import ON_BOTH_LOGS
from tests.integration.wal.logs import EmbeddedPlace, EntryGone, LogPlace


def facts(place: LogPlace, topic: str) -> Facts:
    answer = place.log.facts([topic])[topic]
    assert isinstance(answer, Facts), answer
    return answer


@ON_BOTH_LOGS
def test_only_entries_below_the_offset_are_deleted_once(place: LogPlace) -> None:
    topic = place.topic()
    new = facts(place, topic)

    assert place.append(topic, 250) == 0
    full = facts(place, topic)
    assert place.log.delete_before({topic: 100}) == {topic: 100}

    assert (new.start, new.end, new.partitions) == (0, 0, 1)
    assert (full.start, full.end, full.id) == (0, 250, new.id)
    assert new.id != ""
    assert facts(place, topic).start == 100
    assert place.read(topic, 100) == list(range(100, 250))
    with pytest.raises(EntryGone):
        place.read(topic, 99)
    assert place.log.delete_before({topic: 100}) == {topic: 100}
    assert place.log.delete_before({topic: 7}) == {topic: 100}


@ON_BOTH_LOGS
def test_ids_continue_after_deleting_all_but_not_in_a_new_topic(place: LogPlace) -> None:
    topic = place.topic()
    place.append(topic, 10)
    before = facts(place, topic)

    assert place.log.delete_before({topic: 10}) == {topic: 10}
    assert place.append(topic, 1) == 10
    assert place.read(topic, 10) == [10]

    place.recreate(topic)
    assert facts(place, topic).id != before.id
    assert facts(place, topic).end == 0


@ON_BOTH_LOGS
def test_impossible_offset_deletes_nothing_of_its_topic(place: LogPlace) -> None:
    topic, other = place.topic(), place.topic()
    place.append(topic, 10)
    place.append(other, 10)

    for offset in (-1, 0, -1001):  # some have a special meaning for Kafka
        with pytest.raises(ValueError, match=f"offset {offset} is not above 0"):
            place.log.delete_before({other: 5, topic: offset})
        assert place.read(topic, 0) == place.read(other, 0) == list(range(10))
    answers = place.log.delete_before({topic: 11, other: 5})

    fault = answers[topic]
    assert isinstance(fault, LogFault)
    assert (fault.reason, fault.passes) == ("OFFSET_OUT_OF_RANGE", False)
    assert answers[other] == 5
    assert place.read(topic, 0) == list(range(10))


@ON_BOTH_LOGS
def test_w22_compacted_topic_is_refused_alone(place: LogPlace) -> None:
    topic, other = place.topic(compacted=True), place.topic()
    place.append(other, 10)
    place.append(topic, 3)

    answers = place.log.delete_before({topic: 1, other: 5})

    fault = answers[topic]
    assert isinstance(fault, LogFault)
    assert (fault.reason, fault.passes) == ("POLICY_VIOLATION", False)
    assert answers[other] == 5
    assert "compact" in " ".join(place.log.check(topic))
    assert list(place.log.check(other)) == []


@ON_BOTH_LOGS
def test_each_topic_is_answered_also_beside_a_missing_one(place: LogPlace) -> None:
    topic = place.topic()
    place.append(topic, 3)

    answers = place.log.facts(["wal-none", topic])
    deleted = place.log.delete_before({"wal-none": 1, topic: 1})

    assert isinstance(answers["wal-none"], LogFault)
    assert isinstance(answers[topic], Facts)
    fault = deleted["wal-none"]
    assert isinstance(fault, LogFault)
    assert "wal-none" in str(fault)
    assert deleted[topic] == 1
    assert place.log.facts([]) == {}
    assert place.log.delete_before({}) == {}
    assert facts(place, place.topic(partitions=2)).partitions == 2


@ON_BOTH_LOGS
def test_entry_size_is_averaged_over_the_newest(place: LogPlace) -> None:
    topic, empty = place.topic(), place.topic()
    place.append(topic, 30)
    topics = {name: facts(place, name) for name in (topic, empty)}

    sizes = place.log.entry_sizes(topics)

    assert sizes == {topic: pytest.approx(len("entry") if isinstance(place, EmbeddedPlace) else len("keyentry"))}
    assert place.log.entry_sizes({}) == {}


def test_refused_setting_is_bad_input_without_its_value() -> None:
    for setting in ({"sasl.pasword": "hush-hush"}, {"security.protocol": "hush-hush"}):
        with pytest.raises(BadInput) as refused:
            KafkaLog({"bootstrap.servers": "127.0.0.1:9", **setting})

        assert next(iter(setting)) in str(refused.value)
        assert "hush-hush" not in str(refused.value)
