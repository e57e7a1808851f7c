"""Tables of WAL purges: topics, the regions that share them, floors, and the embedded log."""

from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint

from sexton.database.tables.columns import (
    bigint,
    boolean,
    bytea,
    double,
    index,
    instant,
    jsonb,
    serial,
    table,
    text,
    word,
)

wal_topic = table(
    "wal_topic",
    word("name", key=True),
    text("instance", CheckConstraint("instance <> ''")),  # whose topic it is: scopes of tokens are compared with it
    text("kafka_id", default=""),
    boolean("enabled", default=False),
    text("mode", CheckConstraint("mode IN ('delete', 'logical')"), default="delete"),
    # the first entry that Sexton never deleted; only ever raised
    bigint("floor", CheckConstraint("floor > 0"), null=True),
    bigint("log_start", null=True),  # as last observed
    bigint("log_end", null=True),  # as last observed
    text("quarantined", default=""),
    bigint("generation", null=True),
    text("map_digest", default=""),
    instant("mapped_at", null=True),
    instant("emptied_at", null=True),
    double("entry_bytes", default=0),
    instant("entry_bytes_at", null=True),
    instant("checked_at", null=True),  # when a purge last decided about it
    instant("ok_at", null=True),  # when it was last enabled, or purged without a fault
    text("fault", default=""),  # what the log refused in the last purge
    bigint("freed", default=0),  # entries, over its whole life
    jsonb("blocked", default="{}"),
    bigint("seq", default=0),
)
"""One row per Kafka topic that is purged. It belongs to one instance; a log has one topic of each name."""

wal_region = table(
    "wal_region",
    word("topic", ForeignKey("wal_topic.name", ondelete="CASCADE"), key=True),
    word("region", key=True),
    bigint("epoch", default=0),
    bigint("first", default=0),
    # the first entry that the region needs; null: not reported yet
    bigint("keep_from", CheckConstraint("keep_from >= 0"), null=True),
    jsonb("flushed", default="[]"),  # per stream, the first entry after the highest flushed one that was reported
    bigint("pending_keep_from", null=True),  # a report above the known end of the log, not applied yet
    jsonb("pending_flushed", null=True),
    text("source", CheckConstraint("source IN ('map', 'flushed', 'idle', 'opened', 'reset')")),
    # GONE: it needs nothing, and may come back with an old manifest
    text("state", CheckConstraint("state IN ('MAPPED', 'MOVED', 'DROPPED', 'GONE')")),
    instant("reported_at", null=True),
    text("mapped_node", default=""),  # the only one that may report or open the region; empty: the map names none
    text("node", default=""),  # that has opened or reported it in this epoch; without a mapped one, no other may
    instant("releases_at", null=True),
    bigint("until", null=True),
    index("wal_region_retaining", "topic", "region", where="state <> 'GONE'"),
)
"""One row per region of a topic: the first entry that it needs."""

wal_pin = table(
    "wal_pin",
    word("id", key=True),
    word("topic", ForeignKey("wal_topic.name", ondelete="CASCADE")),
    word("region"),
    bigint("start"),
    text("node"),
    text("kafka_id"),  # of the topic as it was known at the opening
    bigint("log_end"),  # of the topic as it was known at the opening
    instant("opened_at"),
    instant("expires_at"),
    index("wal_pin_of", "topic"),
)
"""One row per region that is being opened and reads the topic from ``start`` on."""

wal_purge = table(
    "wal_purge",
    serial("id"),
    word("topic"),
    text("kafka_id"),
    bigint("floor"),
    instant("at"),
    bigint("log_end"),
    jsonb("holders"),  # which region needed which entry, the lowest first
    instant("done_at", null=True),  # when Kafka was seen to have followed
    bigint("log_start", null=True),  # when the floor was raised; from done_at on, as Kafka had it then
    bigint("freed", null=True),  # entries between the two log starts
    UniqueConstraint("topic", "kafka_id", "floor"),
    index("wal_purge_open", "topic", "floor", where="done_at IS NULL"),
)
"""One row per floor of a topic: which regions blocked more, and when Kafka followed."""

wal_node = table(
    "wal_node",
    text("instance", key=True),  # nodes of two instances may have the same name
    word("name", key=True),
    text("url"),
    instant("seen_at"),
)
"""One row per node of an instance that reports, and the URL where it is asked to flush."""

wal_log = table(
    "wal_log",
    word("name", key=True),
    text("id"),
    bigint("partitions", default=1),
    boolean("compacted", default=False),
    bigint("log_start", default=0),
    bigint("log_end", default=0),
)
"""One row per topic of the embedded log, which replaces Kafka on one machine."""

wal_entry = table(
    "wal_entry",
    word("topic", ForeignKey("wal_log.name", ondelete="CASCADE"), key=True),
    bigint("id", key=True),
    bytea("payload"),
)
"""One row per entry of the embedded log."""
