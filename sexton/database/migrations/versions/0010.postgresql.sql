-- Sexton 0010 on PostgreSQL: binlogs, their consumers, the journal, backends and replicas.

-- What a deployment's followers replay: one sequence for each instance, from one locked row.
CREATE TABLE sexton.journal_head (
    instance text COLLATE "C" PRIMARY KEY REFERENCES sexton.instance,
    seq bigint NOT NULL DEFAULT 0,
    trimmed bigint NOT NULL DEFAULT 0
);
CREATE TABLE sexton.journal (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    seq bigint NOT NULL,
    op bigint NOT NULL,
    body jsonb NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (instance, seq)
);
-- applied: the last entry that it has; lost_at: nothing is kept for it any more, it has to begin anew.
CREATE TABLE sexton.journal_follower (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    name text COLLATE "C" NOT NULL,
    applied bigint NOT NULL,
    seen_at timestamptz NOT NULL,
    lost_at timestamptz,
    PRIMARY KEY (instance, name)
);

-- When the binlogs of an instance were looked at, by the database's clock. refused: why the last look cut nothing. steady_since: since
-- when looks have followed one another: who was silent while nobody looked is not LOST for that.
CREATE TABLE sexton.binlog_round (
    instance text COLLATE "C" PRIMARY KEY REFERENCES sexton.instance,
    checked_at timestamptz,
    ok_at timestamptz,
    steady_since timestamptz,
    refused text NOT NULL DEFAULT '',
    cuts bigint NOT NULL DEFAULT 0,
    refusals bigint NOT NULL DEFAULT 0
);

-- One row for each log: of a database (tbl is empty), and of each of its tables. ttl_seconds NULL: for ever. last_ts: ms
-- since 1970, the latest of any record so far. records, bytes: of all that were ever stored. watermark: up to here all
-- is gone. starts_after: no record up to here is in the log, though some may be there for other logs. skipped: the last record
-- that was not stored, for nobody kept it. awaiting_seq: up to where a cut waits for a person's approval; approved: up to where somebody has approved it.
CREATE TABLE sexton.binlog_log (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    ttl_seconds bigint CHECK (ttl_seconds >= 0),
    max_bytes bigint CHECK (max_bytes >= 0),
    max_history_nums bigint CHECK (max_history_nums >= 0),
    last_seq bigint NOT NULL DEFAULT 0,
    last_ts bigint NOT NULL DEFAULT 0,
    records bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    gone_records bigint NOT NULL DEFAULT 0,
    gone_bytes bigint NOT NULL DEFAULT 0,
    watermark bigint NOT NULL DEFAULT 0,
    starts_after bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,
    cut_at timestamptz,
    held jsonb NOT NULL DEFAULT '{}',
    held_since timestamptz,
    awaiting_seq bigint,
    awaiting_since timestamptz,
    approved bigint NOT NULL DEFAULT 0,
    dropped_at timestamptz,
    PRIMARY KEY (instance, db, tbl)
);
-- Records. ts: no record before it has a later one, and it is not later than the moment it came.
CREATE TABLE sexton.binlog (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,
    sent_ts bigint NOT NULL,
    type text NOT NULL,
    tables jsonb NOT NULL,
    data text NOT NULL,
    bytes bigint NOT NULL,
    ordinal bigint NOT NULL,
    bytes_before bigint NOT NULL,
    PRIMARY KEY (instance, db, seq)
);
-- A record in the log of one table; tbl is empty for one that names none. n: the how many-th. bytes_before: of those
-- before it, ever.
CREATE TABLE sexton.binlog_table_record (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    ordinal bigint NOT NULL,
    bytes_before bigint NOT NULL,
    PRIMARY KEY (instance, db, tbl, seq)
);
CREATE INDEX binlog_table_record_by_seq ON sexton.binlog_table_record (instance, db, seq);
-- The versions of partitions that an UPSERT made.
CREATE TABLE sexton.binlog_partition_version (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    part text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (instance, db, tbl, seq, part)
);
-- Up to which version each partition's binlogs may go, as all cuts so far have it. propagated: its replicas know.
CREATE TABLE sexton.binlog_partition_cut (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    propagated boolean NOT NULL DEFAULT false,
    PRIMARY KEY (instance, db, tbl, part)
);
CREATE INDEX binlog_partition_cut_new ON sexton.binlog_partition_cut (instance) WHERE NOT propagated;
-- Who reads a log. acked: up to here it has all. seen_at: when it said so last. lost_at: it holds nothing back any more.
CREATE TABLE sexton.binlog_consumer (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    name text COLLATE "C" NOT NULL,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL DEFAULT '',
    acked bigint NOT NULL,
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    lost_at timestamptz,
    PRIMARY KEY (instance, name, db, tbl)
);
CREATE INDEX binlog_consumer_of ON sexton.binlog_consumer (instance, db, tbl);

-- Storage nodes. boot, sequence: of the newest report. queue_at: when a worker of ours beside it pulled last.
CREATE TABLE sexton.backend (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    name text COLLATE "C" NOT NULL,
    boot bigint NOT NULL DEFAULT -1,
    sequence bigint NOT NULL DEFAULT -1,
    reported_at timestamptz,
    pulled_at timestamptz,
    queue_at timestamptz,
    PRIMARY KEY (instance, name)
);
-- A tablet's copy on a backend. version: all up to it is there without a gap; needs: the first version that it lacks.
-- failed, succeeded: LFV and LSV, -1: none. gap_since, bad_since: NULL where there is nothing wrong. fresh_until: what
-- was reported counts until then. full_copy: why it no longer counts, empty: it does. full_copy_until: it counts again
-- when it has that version. gone: up to here versions of the tablet may be gone, on any backend. desired, granted, acked: up to
-- where its binlogs should go, may go, and are gone. dropped: of a table that is no more, so nobody needs anything.
CREATE TABLE sexton.replica (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    uid text COLLATE "C" NOT NULL,
    backend text COLLATE "C" NOT NULL,
    tablet text COLLATE "C" NOT NULL,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT -1,
    failed bigint NOT NULL DEFAULT -1,
    succeeded bigint NOT NULL DEFAULT -1,
    needs bigint NOT NULL DEFAULT 0,
    highest bigint NOT NULL DEFAULT -1,
    bad_since timestamptz,
    gap_since timestamptz,
    crossing boolean NOT NULL DEFAULT false,
    boot bigint NOT NULL DEFAULT -1,
    sequence bigint NOT NULL DEFAULT -1,
    fresh_until timestamptz NOT NULL,
    row_count bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    full_copy text NOT NULL DEFAULT '',
    full_copy_at timestamptz,
    full_copy_until bigint NOT NULL DEFAULT -1,
    gone bigint NOT NULL DEFAULT -1,
    desired bigint NOT NULL DEFAULT -1,
    granted bigint NOT NULL DEFAULT -1,
    acked bigint NOT NULL DEFAULT -1,
    problem text NOT NULL DEFAULT '',
    dropped boolean NOT NULL DEFAULT false,
    PRIMARY KEY (instance, uid, backend)
);
CREATE INDEX replica_tablet ON sexton.replica (instance, tablet);
CREATE INDEX replica_part ON sexton.replica (instance, db, tbl, part);
CREATE INDEX replica_due ON sexton.replica (instance, backend, uid) WHERE desired > acked;
CREATE INDEX replica_stale ON sexton.replica (instance, fresh_until) WHERE full_copy = '' AND NOT dropped;
CREATE INDEX replica_unwell ON sexton.replica (instance) WHERE bad_since IS NOT NULL OR gap_since IS NOT NULL;
CREATE INDEX replica_aside ON sexton.replica (instance) WHERE full_copy <> '' OR problem <> '' OR crossing;
