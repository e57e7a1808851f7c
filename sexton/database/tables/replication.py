"""Tables of replication: the journal, binlogs and their consumers, backends and their replicas."""

from typing import Any

from sqlalchemy import CheckConstraint, Column, ForeignKey

from sexton.database.tables.columns import bigint, boolean, index, instant, jsonb, table, text, word


def _instance() -> Column[Any]:
    """Return the first column of each primary key: which instance the row belongs to."""
    return word("instance", ForeignKey("instance.id"), key=True)


journal_head = table("journal_head", _instance(), bigint("seq", default=0), bigint("trimmed", default=0))
"""One row per instance: the last sequence number of its journal. Each writer locks it, so there is one sequence."""

journal = table("journal", _instance(), bigint("seq", key=True), bigint("op"), jsonb("body"), instant("at"))
"""One row per journal entry that followers replay."""

journal_follower = table(
    "journal_follower",
    _instance(),
    word("name", key=True),
    bigint("applied"),  # the last entry that it has
    instant("seen_at"),
    instant("lost_at", null=True),  # from then on no entry is retained for it; it must start over
)
"""One row per follower of a journal."""

binlog_round = table(
    "binlog_round",
    _instance(),
    instant("checked_at", null=True),
    instant("ok_at", null=True),
    # since when runs follow one another: silence before it makes no consumer LOST
    instant("steady_since", null=True),
    text("refused", default=""),  # why the last run cut nothing
    bigint("cuts", default=0),
    bigint("refusals", default=0),
)
"""One row per instance: when its binlogs were last checked, by the database's clock, and its cuts and refusals."""

binlog_log = table(
    "binlog_log",
    _instance(),
    word("db", key=True),
    word("tbl", key=True, default=""),
    boolean("enabled", default=False),
    bigint("ttl_seconds", CheckConstraint("ttl_seconds >= 0"), null=True),  # null: records never expire
    bigint("max_bytes", CheckConstraint("max_bytes >= 0"), null=True),
    bigint("max_history_nums", CheckConstraint("max_history_nums >= 0"), null=True),
    bigint("last_seq", default=0),
    bigint("last_ts", default=0),  # ms since 1970, the latest of any record so far
    bigint("records", default=0),  # of all that were ever stored
    bigint("bytes", default=0),  # of all that were ever stored
    bigint("gone_records", default=0),
    bigint("gone_bytes", default=0),
    bigint("watermark", default=0),  # all records up to here are deleted
    bigint("starts_after", default=0),  # no record up to here is in this log, though some may be stored for other logs
    bigint("skipped", default=0),  # the last record that was not stored, because no log retained it
    instant("cut_at", null=True),
    jsonb("held", default="{}"),
    instant("held_since", null=True),
    bigint("awaiting_seq", null=True),  # up to where a cut waits for an operator's approval
    instant("awaiting_since", null=True),
    bigint("approved", default=0),  # up to where an operator has approved the cut
    instant("dropped_at", null=True),
)
"""One row per binlog: of a database (``tbl`` is empty), and of each of its tables."""

binlog = table(
    "binlog",
    _instance(),
    word("db", key=True),
    bigint("seq", key=True),
    bigint("ts"),  # no earlier record has a later one, and it is not later than the moment of its arrival
    bigint("sent_ts"),  # the timestamp of the record as its owner sent it
    text("type"),
    jsonb("tables"),
    text("data"),
    bigint("bytes"),
    bigint("ordinal"),  # number of the record in the log of its database
    bigint("bytes_before"),  # of all records before it, ever
)
"""One row per binlog record."""

binlog_table_record = table(
    "binlog_table_record",
    _instance(),
    word("db", key=True),
    word("tbl", key=True),
    bigint("seq", key=True),
    bigint("ordinal"),  # ordinal of the record in this log
    bigint("bytes_before"),  # of all records before it in this log, ever
    index("binlog_table_record_by_seq", "instance", "db", "seq"),
)
"""One row per record in the log of one table; ``tbl`` is empty for a record that names no table."""

binlog_partition_version = table(
    "binlog_partition_version",
    _instance(),
    word("db", key=True),
    word("tbl", key=True),
    bigint("seq", key=True),
    word("part", key=True),
    bigint("version"),
)
"""One row per version of a partition that an UPSERT record made."""

binlog_partition_cut = table(
    "binlog_partition_cut",
    _instance(),
    word("db", key=True),
    word("tbl", key=True),
    word("part", key=True),
    bigint("version"),
    boolean("propagated", default=False),  # its replicas know this version
    index("binlog_partition_cut_new", "instance", where="NOT propagated"),
)
"""One row per partition: up to which version its binlogs may be deleted, over all cuts so far."""

binlog_consumer = table(
    "binlog_consumer",
    _instance(),
    word("name", key=True),
    word("db", key=True),
    word("tbl", key=True, default=""),
    bigint("acked"),  # it has all records up to here
    instant("since"),
    instant("seen_at"),  # when it last acknowledged
    instant("lost_at", null=True),  # from then on it blocks no deletion
    index("binlog_consumer_of", "instance", "db", "tbl"),
)
"""One row per consumer of a binlog."""

backend = table(
    "backend",
    _instance(),
    word("name", key=True),
    bigint("boot", default=-1),  # with sequence: of the newest report
    bigint("sequence", default=-1),
    instant("reported_at", null=True),
    instant("pulled_at", null=True),
    instant("queue_at", null=True),  # when a worker beside it last pulled orders
)
"""One row per backend (a storage node), with its newest report."""

replica = table(
    "replica",
    _instance(),
    word("uid", key=True),
    word("backend", key=True),
    word("tablet"),
    word("db"),
    word("tbl"),
    word("part"),
    bigint("continuous_version", default=-1),  # it has all versions up to here without a gap
    bigint("failed", default=-1),  # the last failed version (LFV); -1: none
    bigint("succeeded", default=-1),  # the last succeeded version (LSV); -1: none
    bigint("needs", default=0),  # the first version that it lacks
    bigint("highest", default=-1),
    instant("bad_since", null=True),  # null: nothing is wrong
    instant("gap_since", null=True),  # null: nothing is wrong
    boolean("crossing", default=False),
    bigint("schema_hash", null=True),  # of its tablet's index, as placed; null: unknown
    bigint("reported_schema_hash", null=True),
    bigint("boot", default=-1),
    bigint("sequence", default=-1),
    instant("fresh_until"),  # until when its last report counts
    bigint("row_count", default=0),
    bigint("bytes", default=0),
    text("full_copy", default=""),  # why it does not count as a replica until it has a full copy; empty: it counts
    instant("full_copy_at", null=True),
    bigint("full_copy_until", default=-1),  # it counts again when it has this version
    bigint("gone", default=-1),  # versions of the tablet up to here may be deleted, on any backend
    bigint("desired", default=-1),  # up to where its binlogs should be deleted
    bigint("granted", default=-1),  # up to where its binlogs may be deleted
    bigint("acked", default=-1),  # up to where its binlogs are deleted
    text("problem", default=""),
    boolean("dropped", default=False),  # its table was dropped, so no replica needs its versions
    index("replica_tablet", "instance", "tablet"),
    index("replica_part", "instance", "db", "tbl", "part"),
    index("replica_due", "instance", "backend", "uid", where="desired > acked"),
    index("replica_stale", "instance", "fresh_until", where="full_copy = '' AND NOT dropped"),
    index("replica_unwell", "instance", where="bad_since IS NOT NULL OR gap_since IS NOT NULL"),
    index("replica_aside", "instance", where="full_copy <> '' OR problem <> '' OR crossing"),
)
"""One row per tablet's copy on a backend."""
