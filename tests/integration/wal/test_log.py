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


@pytest.mark.slow
@ON_BOTH_LOGS
def test_facts_name_the_topic_and_its_entries(place: LogPlace) -> None:
    topic = place.topic()
    new = facts(place, topic)

    assert place.append(topic, 250) == 0

    assert (new.start, new.end, new.partitions) == (0, 0, 1)
    assert (facts(place, topic).start, facts(place, topic).end) == (0, 250)
    assert facts(place, topic).id == new.id != ""


@ON_BOTH_LOGS
def test_only_entries_below_the_offset_are_deleted(place: LogPlace) -> None:
    topic = place.topic()
    place.append(topic, 250)

    assert place.log.delete_before({topic: 100}) == {topic: 100}

    assert facts(place, topic).start == 100
    assert place.read(topic, 100) == list(range(100, 250))
    with pytest.raises(EntryGone):
        place.read(topic, 99)


@ON_BOTH_LOGS
def test_deleting_again_or_less_changes_nothing(place: LogPlace) -> None:
    topic = place.topic()
    place.append(topic, 250)
    place.log.delete_before({topic: 100})

    assert place.log.delete_before({topic: 100}) == {topic: 100}
    assert place.log.delete_before({topic: 7}) == {topic: 100}


@ON_BOTH_LOGS
def test_ids_continue_after_deleting_to_the_end(place: LogPlace) -> None:
    topic = place.topic()
    place.append(topic, 10)

    assert place.log.delete_before({topic: 10}) == {topic: 10}

    assert place.append(topic, 1) == 10
    assert place.read(topic, 10) == [10]


@ON_BOTH_LOGS
def test_offset_with_a_special_meaning_deletes_nothing(place: LogPlace, subtests: pytest.Subtests) -> None:
    for offset in [-1, 0, -1001]:
        with subtests.test(offset=offset):
            topic, other = place.topic(), place.topic()
            place.append(topic, 10)
            place.append(other, 10)

            with pytest.raises(ValueError, match=f"offset {offset} is not above 0"):
                place.log.delete_before({other: 5, topic: offset})

            assert place.read(topic, 0) == place.read(other, 0) == list(range(10))


@ON_BOTH_LOGS
def test_offset_above_the_end_is_refused_for_its_topic_only(place: LogPlace) -> None:
    topic, other = place.topic(), place.topic()
    place.append(topic, 10)
    place.append(other, 10)

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
    if facts(place, topic).end == 0:
        _fill(place, topic)

    answers = place.log.delete_before({topic: 1, other: 5})

    fault = answers[topic]
    assert isinstance(fault, LogFault)
    assert (fault.reason, fault.passes) == ("POLICY_VIOLATION", False)
    assert answers[other] == 5
    assert "compact" in " ".join(place.log.check(topic))
    assert list(place.log.check(other)) == []


@ON_BOTH_LOGS
def test_missing_topic_is_a_fault_and_others_are_answered(place: LogPlace) -> None:
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


@ON_BOTH_LOGS
def test_recreated_topic_has_another_id(place: LogPlace) -> None:
    topic = place.topic()
    place.append(topic, 3)
    before = facts(place, topic)

    place.recreate(topic)

    assert facts(place, topic).id != before.id
    assert facts(place, topic).end == 0


@ON_BOTH_LOGS
def test_partitions_are_counted(place: LogPlace) -> None:
    assert facts(place, place.topic(partitions=2)).partitions == 2


@ON_BOTH_LOGS
def test_request_for_no_topics_is_empty(place: LogPlace) -> None:
    assert place.log.facts([]) == {}
    assert place.log.delete_before({}) == {}


def _fill(place: LogPlace, topic: str) -> None:
    place.append(topic, 3)


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
