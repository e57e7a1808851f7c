"""The ACLs of Kafka name the enabled topics and the operations that Sexton sends."""

from sexton.wal.port import acl_commands


def test_each_topic_has_its_command() -> None:
    first, second = acl_commands(["orders", "odd topic"], "User:gc", "k1:9092")

    assert first == (
        "kafka-acls --bootstrap-server k1:9092 --add --allow-principal User:gc --operation Describe "
        "--operation DescribeConfigs --operation Delete --operation Read --topic orders"
    )
    assert second.endswith("--topic 'odd topic'")


def test_unknown_servers_are_left_to_the_reader() -> None:
    assert "--bootstrap-server HOST:9092" in acl_commands(["t"], "User:gc", "")[0]
