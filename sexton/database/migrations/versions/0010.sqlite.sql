-- Sexton 0010 on SQLite: binlogs, their consumers, the journal, backends and replicas.

-- What a deployment's followers replay: one sequence for each instance, from one locked row.
CREATE TABLE sexton_journal_head (
    instance text PRIMARY KEY NOT NULL REFERENCES sexton_instance,
    seq integer NOT NULL DEFAULT 0,
    trimmed integer NOT NULL DEFAULT 0
);
CREATE TABLE sexton_journal (
    instance text NOT NULL REFERENCES sexton_instance,
    seq integer NOT NULL,
    op integer NOT NULL,
    body text NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (instance, seq)
);
-- applied: the last entry that it has; lost_at: nothing is kept for it any more, it has to begin anew.
CREATE TABLE sexton_journal_follower (
    instance text NOT NULL REFERENCES sexton_instance,
    name text NOT NULL,
    applied integer NOT NULL,
    seen_at integer NOT NULL,
    lost_at integer,
    PRIMARY KEY (instance, name)
);

-- When the binlogs of an instance were looked at, by the database's clock. refused: why the last look cut nothing. steady_since: since
-- when looks have followed one another: who was silent while nobody looked is not LOST for that.
CREATE TABLE sexton_binlog_round (
    instance text PRIMARY KEY NOT NULL REFERENCES sexton_instance,
    checked_at integer,
    ok_at integer,
    steady_since integer,
    refused text NOT NULL DEFAULT '',
    cuts integer NOT NULL DEFAULT 0,
    refusals integer NOT NULL DEFAULT 0
);

-- One row for each log: of a database (tbl is empty), and of each of its tables. ttl_seconds NULL: for ever. last_ts: ms
-- since 1970, the latest of any record so far. records, bytes: of all that were ever stored. watermark: up to here all
-- is gone. starts_after: no record up to here is in the log, though some may be there for other logs. skipped: the last record
-- that was not stored, for nobody kept it. awaiting_seq: up to where a cut waits for a person's approval; approved: up to where somebody has approved it.
CREATE TABLE sexton_binlog_log (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    ttl_seconds integer CHECK (ttl_seconds >= 0),
    max_bytes integer CHECK (max_bytes >= 0),
    max_history_nums integer CHECK (max_history_nums >= 0),
    last_seq integer NOT NULL DEFAULT 0,
    last_ts integer NOT NULL DEFAULT 0,
    records integer NOT NULL DEFAULT 0,
    bytes integer NOT NULL DEFAULT 0,
    gone_records integer NOT NULL DEFAULT 0,
    gone_bytes integer NOT NULL DEFAULT 0,
    watermark integer NOT NULL DEFAULT 0,
    starts_after integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,
    cut_at integer,
    held text NOT NULL DEFAULT '{}',
    held_since integer,
    awaiting_seq integer,
    awaiting_since integer,
    approved integer NOT NULL DEFAULT 0,
    dropped_at integer,
    PRIMARY KEY (instance, db, tbl)
);
-- Records. ts: no record before it has a later one, and it is not later than the moment it came.
CREATE TABLE sexton_binlog (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    seq integer NOT NULL,
    ts integer NOT NULL,
    sent_ts integer NOT NULL,
    type text NOT NULL,
    tables text NOT NULL,
    data text NOT NULL,
    bytes integer NOT NULL,
    ordinal integer NOT NULL,
    bytes_before integer NOT NULL,
    PRIMARY KEY (instance, db, seq)
);
-- A record in the log of one table; tbl is empty for one that names none. n: the how many-th. bytes_before: of those
-- before it, ever.
CREATE TABLE sexton_binlog_table_record (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL,
    seq integer NOT NULL,
    ordinal integer NOT NULL,
    bytes_before integer NOT NULL,
    PRIMARY KEY (instance, db, tbl, seq)
);
CREATE INDEX sexton_binlog_table_record_by_seq ON sexton_binlog_table_record (instance, db, seq);
-- The versions of partitions that an UPSERT made.
CREATE TABLE sexton_binlog_partition_version (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL,
    seq integer NOT NULL,
    part text NOT NULL,
    version integer NOT NULL,
    PRIMARY KEY (instance, db, tbl, seq, part)
);
-- Up to which version each partition's binlogs may go, as all cuts so far have it. propagated: its replicas know.
CREATE TABLE sexton_binlog_partition_cut (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL,
    part text NOT NULL,
    version integer NOT NULL,
    propagated boolean NOT NULL DEFAULT false,
    PRIMARY KEY (instance, db, tbl, part)
);
CREATE INDEX sexton_binlog_partition_cut_new ON sexton_binlog_partition_cut (instance) WHERE NOT propagated;
-- Who reads a log. acked: up to here it has all. seen_at: when it said so last. lost_at: it holds nothing back any more.
CREATE TABLE sexton_binlog_consumer (
    instance text NOT NULL REFERENCES sexton_instance,
    name text NOT NULL,
    db text NOT NULL,
    tbl text NOT NULL DEFAULT '',
    acked integer NOT NULL,
    since integer NOT NULL,
    seen_at integer NOT NULL,
    lost_at integer,
    PRIMARY KEY (instance, name, db, tbl)
);
CREATE INDEX sexton_binlog_consumer_of ON sexton_binlog_consumer (instance, db, tbl);

-- Storage nodes. boot, sequence: of the newest report. queue_at: when a worker of ours beside it pulled last.
CREATE TABLE sexton_backend (
    instance text NOT NULL REFERENCES sexton_instance,
    name text NOT NULL,
    boot integer NOT NULL DEFAULT -1,
    sequence integer NOT NULL DEFAULT -1,
    reported_at integer,
    pulled_at integer,
    queue_at integer,
    PRIMARY KEY (instance, name)
);
-- A tablet's copy on a backend. version: all up to it is there without a gap; needs: the first version that it lacks.
-- failed, succeeded: LFV and LSV, -1: none. gap_since, bad_since: NULL where there is nothing wrong. fresh_until: what
-- was reported counts until then. full_copy: why it no longer counts, empty: it does. full_copy_until: it counts again
-- when it has that version. gone: up to here versions of the tablet may be gone, on any backend. desired, granted, acked: up to
-- where its binlogs should go, may go, and are gone. dropped: of a table that is no more, so nobody needs anything.
CREATE TABLE sexton_replica (
    instance text NOT NULL REFERENCES sexton_instance,
    uid text NOT NULL,
    backend text NOT NULL,
    tablet text NOT NULL,
    db text NOT NULL,
    tbl text NOT NULL,
    part text NOT NULL,
    version integer NOT NULL DEFAULT -1,
    failed integer NOT NULL DEFAULT -1,
    succeeded integer NOT NULL DEFAULT -1,
    needs integer NOT NULL DEFAULT 0,
    highest integer NOT NULL DEFAULT -1,
    bad_since integer,
    gap_since integer,
    crossing boolean NOT NULL DEFAULT false,
    boot integer NOT NULL DEFAULT -1,
    sequence integer NOT NULL DEFAULT -1,
    fresh_until integer NOT NULL,
    row_count integer NOT NULL DEFAULT 0,
    bytes integer NOT NULL DEFAULT 0,
    full_copy text NOT NULL DEFAULT '',
    full_copy_at integer,
    full_copy_until integer NOT NULL DEFAULT -1,
    gone integer NOT NULL DEFAULT -1,
    desired integer NOT NULL DEFAULT -1,
    granted integer NOT NULL DEFAULT -1,
    acked integer NOT NULL DEFAULT -1,
    problem text NOT NULL DEFAULT '',
    dropped boolean NOT NULL DEFAULT false,
    PRIMARY KEY (instance, uid, backend)
);
CREATE INDEX sexton_replica_tablet ON sexton_replica (instance, tablet);
CREATE INDEX sexton_replica_part ON sexton_replica (instance, db, tbl, part);
CREATE INDEX sexton_replica_due ON sexton_replica (instance, backend, uid) WHERE desired > acked;
CREATE INDEX sexton_replica_stale ON sexton_replica (instance, fresh_until) WHERE full_copy = '' AND NOT dropped;
CREATE INDEX sexton_replica_unwell ON sexton_replica (instance) WHERE bad_since IS NOT NULL OR gap_since IS NOT NULL;
CREATE INDEX sexton_replica_aside ON sexton_replica (instance) WHERE full_copy <> '' OR problem <> '' OR crossing;
