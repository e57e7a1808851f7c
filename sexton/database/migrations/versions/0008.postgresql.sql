-- Sexton 0008 on PostgreSQL: Kafka topics, the regions that share them, and what was purged.

-- floor: the first entry that we never deleted; it only rises. log_start, log_end: as observed last.
-- checked_at: when a purge last decided about it. ok_at: when it was last enabled, or purged without a fault.
-- fault: what the log refused then. freed: entries, ever.
CREATE TABLE sexton.wal_topic (
    name text COLLATE "C" PRIMARY KEY,
    kafka_id text NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    mode text NOT NULL DEFAULT 'delete' CHECK (mode IN ('delete', 'logical')),
    floor bigint CHECK (floor > 0),
    log_start bigint,
    log_end bigint,
    quarantined text NOT NULL DEFAULT '',
    generation bigint,
    map_digest text NOT NULL DEFAULT '',
    mapped_at timestamptz,
    emptied_at timestamptz,
    entry_bytes double precision NOT NULL DEFAULT 0,
    entry_bytes_at timestamptz,
    checked_at timestamptz,
    ok_at timestamptz,
    fault text NOT NULL DEFAULT '',
    freed bigint NOT NULL DEFAULT 0,
    blocked jsonb NOT NULL DEFAULT '{}',
    seq bigint NOT NULL DEFAULT 0
);

-- keep_from: the first entry that the region needs; null: nobody has said yet. pending_keep_from: reported above the known end.
-- flushed: of each stream the first entry that was not flushed when it reported; flushed_total: their sum. GONE: it holds nothing, and may come back with an old manifest.
CREATE TABLE sexton.wal_region (
    topic text COLLATE "C" NOT NULL REFERENCES sexton.wal_topic ON DELETE CASCADE,
    region text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    first bigint NOT NULL DEFAULT 0,
    keep_from bigint CHECK (keep_from >= 0),
    flushed_total bigint NOT NULL DEFAULT 0,
    flushed jsonb NOT NULL DEFAULT '[]',
    pending_keep_from bigint,
    pending_total bigint,
    pending_flushed jsonb,
    source text NOT NULL CHECK (source IN ('map', 'flushed', 'idle', 'opened', 'reset')),
    state text NOT NULL CHECK (state IN ('MAPPED', 'MOVED', 'DROPPED', 'GONE')),
    reported_at timestamptz,
    node text NOT NULL DEFAULT '',
    releases_at timestamptz,
    until bigint,
    PRIMARY KEY (topic, region)
);

-- Regions that are being opened: each reads from start on. kafka_id, log_end: of the topic as it was known then.
CREATE TABLE sexton.wal_pin (
    id text COLLATE "C" PRIMARY KEY,
    topic text COLLATE "C" NOT NULL REFERENCES sexton.wal_topic ON DELETE CASCADE,
    region text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    node text NOT NULL,
    kafka_id text NOT NULL,
    log_end bigint NOT NULL,
    opened_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX wal_pin_of ON sexton.wal_pin (topic);

-- One row for each floor. holders: who needed what, the lowest first. done_at: when Kafka was seen to have followed;
-- log_start: as it was when the floor was raised, then as it was seen to have followed. freed: entries between the two.
CREATE TABLE sexton.wal_purge (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text COLLATE "C" NOT NULL,
    kafka_id text NOT NULL,
    floor bigint NOT NULL,
    at timestamptz NOT NULL,
    log_end bigint NOT NULL,
    holders jsonb NOT NULL,
    done_at timestamptz,
    log_start bigint,
    freed bigint,
    UNIQUE (topic, kafka_id, floor)
);

-- Nodes that report: where each is asked to flush.
CREATE TABLE sexton.wal_node (
    name text COLLATE "C" PRIMARY KEY,
    url text NOT NULL,
    seen_at timestamptz NOT NULL
);

-- The embedded log, for one machine: what Kafka is elsewhere.
CREATE TABLE sexton.wal_log (
    name text COLLATE "C" PRIMARY KEY,
    id text NOT NULL,
    partitions bigint NOT NULL DEFAULT 1,
    compacted boolean NOT NULL DEFAULT false,
    log_start bigint NOT NULL DEFAULT 0,
    log_end bigint NOT NULL DEFAULT 0
);
CREATE TABLE sexton.wal_entry (
    topic text COLLATE "C" NOT NULL REFERENCES sexton.wal_log ON DELETE CASCADE,
    id bigint NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (topic, id)
);
