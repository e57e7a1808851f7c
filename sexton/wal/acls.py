"""Derive the least ACLs of Kafka for the requests that Sexton sends about its topics. Pure."""

import shlex
from collections.abc import Iterable

OPERATIONS = ("Describe", "DescribeConfigs", "Delete", "Read")
"""Per topic: id, partitions and offsets; settings; DeleteRecords; the newest entries, from which sizes are estimated.

It joins no consumer group, so it needs no ACL of a group, and none of the cluster.
"""


def acl_commands(topics: Iterable[str], principal: str, servers: str) -> list[str]:
    """Return a command of Kafka for each topic, which grants what Sexton needs.

    Args:
        topics: the enabled topics.
        principal: Sexton's, such as ``User:sexton``.
        servers: bootstrap servers; empty: they are not known here.
    """
    operations = [word for operation in OPERATIONS for word in ("--operation", operation)]
    command = ["kafka-acls", "--bootstrap-server", servers or "HOST:9092", "--add", "--allow-principal", principal]
    return [shlex.join([*command, *operations, "--topic", topic]) for topic in topics]
