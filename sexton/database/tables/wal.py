"""Tables of WAL purges: topics, the regions that share them, floors, and the embedded log."""

from sqlalchemy import BigInteger, Boolean, Column, Double, LargeBinary, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json, Serial

wal_topic = Table(
    "wal_topic",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("instance", Text),
    Column("kafka_id", Text),
    Column("enabled", Boolean),
    Column("mode", Text),  # delete or logical
    Column("floor", BigInteger),  # the first entry that Sexton never deleted; only ever raised
    Column("log_start", BigInteger),  # as last observed
    Column("log_end", BigInteger),  # as last observed
    Column("quarantined", Text),
    Column("generation", BigInteger),
    Column("map_digest", Text),
    Column("mapped_at", Instant),
    Column("emptied_at", Instant),
    Column("entry_bytes", Double),
    Column("entry_bytes_at", Instant),
    Column("checked_at", Instant),  # when a purge last decided about it
    Column("ok_at", Instant),  # when it was last enabled, or purged without a fault
    Column("fault", Text),  # what the log refused in the last purge
    Column("freed", BigInteger),  # entries, over its whole life
    Column("blocked", Json),
    Column("seq", BigInteger),
)
"""One row per Kafka topic that is purged. It belongs to one instance; a log has one topic of each name."""

wal_region = Table(
    "wal_region",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("region", Text, primary_key=True),
    Column("epoch", BigInteger),
    Column("first", BigInteger),
    Column("keep_from", BigInteger),  # the first entry that the region needs; null: not reported yet
    Column("flushed", Json),  # per stream, the first entry after the highest flushed one that was reported
    Column("pending_keep_from", BigInteger),  # a report above the known end of the log, not applied yet
    Column("pending_flushed", Json),
    Column("source", Text),
    Column("state", Text),  # GONE: it needs nothing, and may come back with an old manifest
    Column("reported_at", Instant),
    Column("mapped_node", Text),  # the only one that may report or open the region; empty: the map names none
    Column("node", Text),  # that has opened or reported it in this epoch; without a mapped one, no other may
    Column("releases_at", Instant),
    Column("until", BigInteger),
)
"""One row per region of a topic: the first entry that it needs."""

wal_pin = Table(
    "wal_pin",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("topic", Text),
    Column("region", Text),
    Column("start", BigInteger),
    Column("node", Text),
    Column("kafka_id", Text),  # of the topic as it was known at the opening
    Column("log_end", BigInteger),  # of the topic as it was known at the opening
    Column("opened_at", Instant),
    Column("expires_at", Instant),
)
"""One row per region that is being opened and reads the topic from ``start`` on."""

wal_purge = Table(
    "wal_purge",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("topic", Text),
    Column("kafka_id", Text),
    Column("floor", BigInteger),
    Column("at", Instant),
    Column("log_end", BigInteger),
    Column("holders", Json),  # which region needed which entry, the lowest first
    Column("done_at", Instant),  # when Kafka was seen to have followed
    Column("log_start", BigInteger),  # when the floor was raised; later, when Kafka was seen to have followed
    Column("freed", BigInteger),  # entries between the two log starts
)
"""One row per floor of a topic: which regions blocked more, and when Kafka followed."""

wal_node = Table(
    "wal_node",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("url", Text),
    Column("seen_at", Instant),
)
"""One row per node of an instance that reports, and the URL where it is asked to flush."""

wal_log = Table(
    "wal_log",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("id", Text),
    Column("partitions", BigInteger),
    Column("compacted", Boolean),
    Column("log_start", BigInteger),
    Column("log_end", BigInteger),
)
"""One row per topic of the embedded log, which replaces Kafka on one machine."""

wal_entry = Table(
    "wal_entry",
    METADATA,
    Column("topic", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True),
    Column("payload", LargeBinary),
)
"""One row per entry of the embedded log."""
