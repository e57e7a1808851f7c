"""Which errors of Kafka end without intervention."""

import pytest
from confluent_kafka import KafkaError

from sexton.wal.kafka import is_transient


@pytest.mark.parametrize(
    "name",
    [
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "FENCED_LEADER_EPOCH",
        "_TIMED_OUT",
    ],
)
def test_errors_of_an_election_are_transient(name: str) -> None:
    assert is_transient(KafkaError(getattr(KafkaError, name)))


@pytest.mark.parametrize("name", ["POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", "OFFSET_OUT_OF_RANGE"])
def test_refusals_are_not_transient(name: str) -> None:
    assert not is_transient(KafkaError(getattr(KafkaError, name)))
