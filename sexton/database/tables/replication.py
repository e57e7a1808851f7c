"""Tables of replication: the journal, binlogs and their consumers, backends and their replicas."""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json

journal_head = Table(
    "journal_head",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("seq", BigInteger),
    Column("trimmed", BigInteger),
)
"""One row per instance: the last sequence number of its journal, locked by each writer."""

journal = Table(
    "journal",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("op", BigInteger),
    Column("body", Json),
    Column("at", Instant),
)
"""One row per journal entry that followers replay."""

journal_follower = Table(
    "journal_follower",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("applied", BigInteger),  # the last entry that it has
    Column("seen_at", Instant),
    Column("lost_at", Instant),  # from then on no entry is retained for it; it must start over
)
"""One row per follower of a journal."""

binlog_round = Table(
    "binlog_round",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("checked_at", Instant),
    Column("ok_at", Instant),
    Column("steady_since", Instant),  # since when rounds follow one another: silence before it makes no consumer LOST
    Column("refused", Text),  # why the last round cut nothing
    Column("cuts", BigInteger),
    Column("refusals", BigInteger),
)
"""One row per instance: when a binlog round last ran, and its counts."""

binlog_log = Table(
    "binlog_log",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("db", Text, primary_key=True),
    Column("tbl", Text, primary_key=True),
    Column("enabled", Boolean),
    Column("ttl_seconds", BigInteger),  # null: records never expire
    Column("max_bytes", BigInteger),
    Column("max_history_nums", BigInteger),
    Column("last_seq", BigInteger),
    Column("last_ts", BigInteger),  # ms since 1970, the latest of any record so far
    Column("records", BigInteger),  # of all that were ever stored
    Column("bytes", BigInteger),  # of all that were ever stored
    Column("gone_records", BigInteger),
    Column("gone_bytes", BigInteger),
    Column("watermark", BigInteger),  # all records up to here are deleted
    Column("starts_after", BigInteger),  # no record up to here is in this log, though some may be stored for other logs
    Column("skipped", BigInteger),  # the last record that was not stored, because no log retained it
    Column("cut_at", Instant),
    Column("held", Json),
    Column("held_since", Instant),
    Column("awaiting_seq", BigInteger),  # up to where a cut waits for an operator's approval
    Column("awaiting_since", Instant),
    Column("approved", BigInteger),  # up to where an operator has approved the cut
    Column("dropped_at", Instant),
)
"""One row per binlog: of a database (``tbl`` is empty), and of each of its tables."""

binlog = Table(
    "binlog",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("db", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("ts", BigInteger),  # no earlier record has a later one, and it is not later than the moment of its arrival
    Column("sent_ts", BigInteger),  # the timestamp of the record as its owner sent it
    Column("type", Text),
    Column("tables", Json),
    Column("data", Text),
    Column("bytes", BigInteger),
    Column("ordinal", BigInteger),  # ordinal of the record
    Column("bytes_before", BigInteger),  # of all records before it, ever
)
"""One row per binlog record."""

binlog_table_record = Table(
    "binlog_table_record",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("db", Text, primary_key=True),
    Column("tbl", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("ordinal", BigInteger),  # ordinal of the record in this log
    Column("bytes_before", BigInteger),  # of all records before it in this log, ever
)
"""One row per record in the log of one table; ``tbl`` is empty for a record that names no table."""

binlog_partition_version = Table(
    "binlog_partition_version",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("db", Text, primary_key=True),
    Column("tbl", Text, primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("version", BigInteger),
)
"""One row per version of a partition that an UPSERT record made."""

binlog_partition_cut = Table(
    "binlog_partition_cut",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("db", Text, primary_key=True),
    Column("tbl", Text, primary_key=True),
    Column("part", Text, primary_key=True),
    Column("version", BigInteger),
    Column("propagated", Boolean),  # its replicas know this version
)
"""One row per partition: up to which version its binlogs may be deleted, over all cuts so far."""

binlog_consumer = Table(
    "binlog_consumer",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("db", Text, primary_key=True),
    Column("tbl", Text, primary_key=True),
    Column("acked", BigInteger),  # it has all records up to here
    Column("since", Instant),
    Column("seen_at", Instant),  # when it last acknowledged
    Column("lost_at", Instant),  # from then on it blocks no deletion
)
"""One row per consumer of a binlog."""

backend = Table(
    "backend",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("boot", BigInteger),  # with sequence: of the newest report
    Column("sequence", BigInteger),
    Column("reported_at", Instant),
    Column("pulled_at", Instant),
    Column("queue_at", Instant),  # when a worker beside it last pulled orders
)
"""One row per backend (a storage node), with its newest report."""

replica = Table(
    "replica",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("uid", Text, primary_key=True),
    Column("backend", Text, primary_key=True),
    Column("tablet", Text),
    Column("db", Text),
    Column("tbl", Text),
    Column("part", Text),
    Column("version", BigInteger),  # it has all versions up to here without a gap
    Column("failed", BigInteger),  # the last failed version (LFV); -1: none
    Column("succeeded", BigInteger),  # the last succeeded version (LSV); -1: none
    Column("needs", BigInteger),  # the first version that it lacks
    Column("highest", BigInteger),
    Column("bad_since", Instant),  # null: nothing is wrong
    Column("gap_since", Instant),  # null: nothing is wrong
    Column("crossing", Boolean),
    Column("boot", BigInteger),
    Column("sequence", BigInteger),
    Column("fresh_until", Instant),  # until when its last report counts
    Column("row_count", BigInteger),
    Column("bytes", BigInteger),
    Column("full_copy", Text),  # why it does not count as a replica until it has a full copy; empty: it counts
    Column("full_copy_at", Instant),
    Column("full_copy_until", BigInteger),  # it counts again when it has this version
    Column("gone", BigInteger),  # versions of the tablet up to here may be deleted, on any backend
    Column("desired", BigInteger),  # up to where its binlogs should be deleted
    Column("granted", BigInteger),  # up to where its binlogs may be deleted
    Column("acked", BigInteger),  # up to where its binlogs are deleted
    Column("problem", Text),
    Column("dropped", Boolean),  # its table was dropped, so no replica needs its versions
)
"""One row per tablet's copy on a backend."""
