"""Which errors of Kafka end without intervention, and which ACLs it gets: enabled topics, sent operations."""

from confluent_kafka import KafkaError

from sexton.wal.kafka import is_transient
from sexton.wal.port import acl_commands

PASSING = (
    *("LEADER_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION", "OFFSET_NOT_AVAILABLE", "UNKNOWN_LEADER_EPOCH"),
    *("FENCED_LEADER_EPOCH", "_TIMED_OUT"),
)
REFUSALS = ("POLICY_VIOLATION", "TOPIC_AUTHORIZATION_FAILED", "OFFSET_OUT_OF_RANGE")


def test_errors_of_an_election_are_transient_and_refusals_not() -> None:
    passing = [name for name in (*PASSING, *REFUSALS) if is_transient(KafkaError(getattr(KafkaError, name)))]

    assert passing == list(PASSING)


def test_each_topic_has_its_command() -> None:
    first, second = acl_commands(["orders", "odd topic"], "User:gc", "k1:9092")

    assert first == (
        "kafka-acls --bootstrap-server k1:9092 --add --allow-principal User:gc --operation Describe "
        "--operation DescribeConfigs --operation Delete --operation Read --topic orders"
    )
    assert second.endswith("--topic 'odd topic'")
    assert "--bootstrap-server HOST:9092" in acl_commands(["t"], "User:gc", "")[0]
