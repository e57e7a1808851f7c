-- Sexton 0008 on SQLite: Kafka topics, the regions that share them, and what was purged.

-- floor: the first entry that we never deleted; it only rises. log_start, log_end: as observed last.
-- checked_at: when a purge last decided about it. ok_at: when it was last enabled, or purged without a fault.
-- fault: what the log refused then. freed: entries, ever.
CREATE TABLE sexton_wal_topic (
    name text PRIMARY KEY NOT NULL,
    kafka_id text NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    mode text NOT NULL DEFAULT 'delete' CHECK (mode IN ('delete', 'logical')),
    floor integer CHECK (floor > 0),
    log_start integer,
    log_end integer,
    quarantined text NOT NULL DEFAULT '',
    generation integer,
    map_digest text NOT NULL DEFAULT '',
    mapped_at integer,
    emptied_at integer,
    entry_bytes real NOT NULL DEFAULT 0,
    entry_bytes_at integer,
    checked_at integer,
    ok_at integer,
    fault text NOT NULL DEFAULT '',
    freed integer NOT NULL DEFAULT 0,
    blocked text NOT NULL DEFAULT '{}',
    seq integer NOT NULL DEFAULT 0
);

-- keep_from: the first entry that the region needs; null: nobody has said yet. pending_keep_from: reported above the known end.
-- flushed: of each stream the first entry that was not flushed when it reported; flushed_total: their sum. GONE: it holds nothing, and may come back with an old manifest.
CREATE TABLE sexton_wal_region (
    topic text NOT NULL REFERENCES sexton_wal_topic ON DELETE CASCADE,
    region text NOT NULL,
    epoch integer NOT NULL DEFAULT 0,
    first integer NOT NULL DEFAULT 0,
    keep_from integer CHECK (keep_from >= 0),
    flushed_total integer NOT NULL DEFAULT 0,
    flushed text NOT NULL DEFAULT '[]',
    pending_keep_from integer,
    pending_total integer,
    pending_flushed text,
    source text NOT NULL CHECK (source IN ('map', 'flushed', 'idle', 'opened', 'reset')),
    state text NOT NULL CHECK (state IN ('MAPPED', 'MOVED', 'DROPPED', 'GONE')),
    reported_at integer,
    node text NOT NULL DEFAULT '',
    releases_at integer,
    until integer,
    PRIMARY KEY (topic, region)
);

-- Regions that are being opened: each reads from start on. kafka_id, log_end: of the topic as it was known then.
CREATE TABLE sexton_wal_pin (
    id text PRIMARY KEY NOT NULL,
    topic text NOT NULL REFERENCES sexton_wal_topic ON DELETE CASCADE,
    region text NOT NULL,
    start integer NOT NULL,
    node text NOT NULL,
    kafka_id text NOT NULL,
    log_end integer NOT NULL,
    opened_at integer NOT NULL,
    expires_at integer NOT NULL
);
CREATE INDEX sexton_wal_pin_of ON sexton_wal_pin (topic);

-- One row for each floor. holders: who needed what, the lowest first. done_at: when Kafka was seen to have followed;
-- log_start: as it was when the floor was raised, then as it was seen to have followed. freed: entries between the two.
CREATE TABLE sexton_wal_purge (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    topic text NOT NULL,
    kafka_id text NOT NULL,
    floor integer NOT NULL,
    at integer NOT NULL,
    log_end integer NOT NULL,
    holders text NOT NULL,
    done_at integer,
    log_start integer,
    freed integer,
    UNIQUE (topic, kafka_id, floor)
);

-- Nodes that report: where each is asked to flush.
CREATE TABLE sexton_wal_node (
    name text PRIMARY KEY NOT NULL,
    url text NOT NULL,
    seen_at integer NOT NULL
);

-- The embedded log, for one machine: what Kafka is elsewhere.
CREATE TABLE sexton_wal_log (
    name text PRIMARY KEY NOT NULL,
    id text NOT NULL,
    partitions integer NOT NULL DEFAULT 1,
    compacted boolean NOT NULL DEFAULT false,
    log_start integer NOT NULL DEFAULT 0,
    log_end integer NOT NULL DEFAULT 0
);
CREATE TABLE sexton_wal_entry (
    topic text NOT NULL REFERENCES sexton_wal_log ON DELETE CASCADE,
    id integer NOT NULL,
    payload blob NOT NULL,
    PRIMARY KEY (topic, id)
);
