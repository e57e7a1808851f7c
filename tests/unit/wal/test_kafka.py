"""Which errors of Kafka end without intervention, and which ACLs it gets: enabled topics, sent operations."""

import pytest
from confluent_kafka import KafkaError

from sexton.wal.kafka import is_transient
from sexton.wal.port import acl_commands


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


def test_each_topic_has_its_command() -> None:
    first, second = acl_commands(["orders", "odd topic"], "User:gc", "k1:9092")

    assert first == (
        "kafka-acls --bootstrap-server k1:9092 --add --allow-principal User:gc --operation Describe "
        "--operation DescribeConfigs --operation Delete --operation Read --topic orders"
    )
    assert second.endswith("--topic 'odd topic'")


def test_unknown_servers_are_left_to_the_reader() -> None:
    assert "--bootstrap-server HOST:9092" in acl_commands(["t"], "User:gc", "")[0]
