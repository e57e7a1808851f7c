-- Sexton 0001 on SQLite: tables named sexton_… in the owner's own file. Instants are integers: milliseconds since 1970.
-- A default cannot read a table, so the test offset is added by a trigger.

CREATE TABLE sexton_clock (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    deployment text NOT NULL,
    offset_seconds integer NOT NULL DEFAULT 0 CHECK (offset_seconds >= 0),
    CONSTRAINT clock_moves_only_in_demo_and_test CHECK (offset_seconds = 0 OR deployment GLOB 'demo-*' OR deployment GLOB 'test-*')
);

CREATE TABLE sexton_instance (
    id text PRIMARY KEY NOT NULL CHECK (id GLOB '[a-z0-9]*' AND id NOT GLOB '*[^a-z0-9_-]*' AND length(id) <= 63),
    mode text NOT NULL DEFAULT 'observe' CHECK (mode IN ('observe', 'enabled')),
    created_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    enabled_at integer
);

CREATE TABLE sexton_instance_guard (
    instance text PRIMARY KEY NOT NULL,
    seq integer NOT NULL DEFAULT 0
);

INSERT INTO sexton_instance_guard (instance) VALUES ('*');

CREATE TABLE sexton_vault (
    instance text NOT NULL REFERENCES sexton_instance (id),
    name text NOT NULL CHECK (name GLOB '[a-z0-9]*' AND name NOT GLOB '*[^a-z0-9_-]*' AND length(name) <= 63),
    uuid text NOT NULL UNIQUE,
    kind text NOT NULL CHECK (kind IN ('s3', 'local')),
    location text NOT NULL,
    prefix text NOT NULL DEFAULT '',
    endpoint text NOT NULL DEFAULT '',
    region text NOT NULL DEFAULT '',
    profile text NOT NULL DEFAULT '',
    deployment text NOT NULL,
    created_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    PRIMARY KEY (instance, name)
);

CREATE TABLE sexton_mark (
    instance text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    state text NOT NULL DEFAULT 'MARKED',
    marked_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    expires_at integer,
    retention_starts_at integer NOT NULL GENERATED ALWAYS AS (coalesce(expires_at, marked_at)) STORED,
    parent_kind text,
    parent_id text,
    vault text,
    prefix text,
    keys text,
    bytes integer NOT NULL DEFAULT 0,
    owner_txn text,
    lease_epoch integer,
    batch integer,
    claimed_at integer,
    first_pass_at integer,
    objects_gone integer NOT NULL DEFAULT 0,
    bytes_gone integer NOT NULL DEFAULT 0,
    quarantined_reason text,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    next_try_at integer,
    -- id first: led by instance and kind a planner without statistics reads every mark of the kind and filters.
    PRIMARY KEY (id, kind, instance),
    CONSTRAINT mark_kind_is_a_name CHECK (kind GLOB '[a-z]*' AND kind NOT GLOB '*[^a-z0-9_-]*' AND length(kind) <= 32),
    CONSTRAINT mark_id_is_text_of_128 CHECK (id NOT GLOB '*[^A-Za-z0-9.-]*' AND instr(id, char(0)) = 0 AND length(id) BETWEEN 1 AND 128),
    CONSTRAINT mark_state_is_known CHECK (state IN ('MARKED', 'FENCED', 'CLAIMED')),
    CONSTRAINT mark_names_prefix_or_keys CHECK (prefix IS NULL OR keys IS NULL),
    CONSTRAINT mark_prefix_ends_with_a_separator CHECK (
        prefix GLOB '*[^A-Za-z0-9.-]' AND unicode(substr(prefix, -1)) < 128),
    CONSTRAINT mark_prefix_stays_inside CHECK (
        instr(prefix, char(0)) = 0 AND substr(prefix, 1, 1) <> '/' AND substr(prefix, 1, 8) <> '_sexton/'
        AND instr(prefix, '//') = 0 AND instr('/' || prefix || '/', '/../') = 0 AND instr('/' || prefix || '/', '/./') = 0),
    CONSTRAINT mark_keys_are_1_to_1000 CHECK (
        keys IS NULL OR (json_valid(keys) AND json_type(keys) = 'array' AND json_array_length(keys) BETWEEN 1 AND 1000)),
    CONSTRAINT mark_bytes_are_0_to_1_pib CHECK (typeof(bytes) = 'integer' AND bytes BETWEEN 0 AND 1125899906842624),
    CONSTRAINT mark_names_are_text CHECK (
        typeof(instance) = 'text' AND typeof(kind) = 'text' AND typeof(id) = 'text'
        AND typeof(vault) IN ('text', 'null') AND typeof(prefix) IN ('text', 'null') AND typeof(keys) IN ('text', 'null')
        AND typeof(parent_kind) IN ('text', 'null') AND typeof(parent_id) IN ('text', 'null')),
    CONSTRAINT mark_parent_is_whole CHECK ((parent_kind IS NULL) = (parent_id IS NULL))
);
CREATE INDEX sexton_mark_due ON sexton_mark (instance, kind, retention_starts_at, id)
    WHERE state = 'MARKED' AND quarantined_reason IS NULL;
CREATE INDEX sexton_mark_claimed ON sexton_mark (instance, batch, kind, id) WHERE state = 'CLAIMED';
CREATE INDEX sexton_mark_late ON sexton_mark (instance, kind, id) WHERE state = 'CLAIMED' AND first_pass_at IS NOT NULL;
CREATE INDEX sexton_mark_children ON sexton_mark (instance, parent_kind, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sexton_mark_quarantined ON sexton_mark (instance, quarantined_reason) WHERE quarantined_reason IS NOT NULL;

CREATE TABLE sexton_mark_history (
    instance text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    parent_kind text,
    parent_id text,
    vault text,
    prefix text,
    keys text,
    objects integer NOT NULL,
    bytes integer NOT NULL,
    marked_at integer NOT NULL,
    claimed_at integer NOT NULL,
    gone_at integer NOT NULL,
    batch integer NOT NULL,
    round integer NOT NULL,
    PRIMARY KEY (id, kind, instance)
);
CREATE INDEX sexton_mark_history_gone ON sexton_mark_history (instance, gone_at);
CREATE INDEX sexton_mark_history_children ON sexton_mark_history (instance, parent_kind, parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE sexton_mark_file (
    batch integer NOT NULL,
    seq integer NOT NULL,
    instance text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    vault text NOT NULL,
    key text NOT NULL,
    bytes integer,
    etag text NOT NULL DEFAULT '',
    outcome text,
    reason text,
    PRIMARY KEY (batch, seq)
);
CREATE INDEX sexton_mark_file_of_mark ON sexton_mark_file (id, kind, instance);

CREATE TABLE sexton_lease (
    instance text NOT NULL,
    job text NOT NULL,
    state text NOT NULL DEFAULT 'IDLE' CHECK (state IN ('IDLE', 'BUSY')),
    owner text NOT NULL DEFAULT '',
    epoch integer NOT NULL DEFAULT 0,
    acquired_at integer,
    expires_at integer,
    PRIMARY KEY (instance, job)
);

CREATE TABLE sexton_plan (
    id integer PRIMARY KEY AUTOINCREMENT,
    instance text NOT NULL,
    created_at integer NOT NULL,
    state text NOT NULL DEFAULT 'PLANNED' CHECK (state IN ('PLANNED', 'APPLYING', 'APPLIED')),
    planned_by text NOT NULL,
    policy_version text NOT NULL,
    body text NOT NULL
);

CREATE TABLE sexton_round (
    id integer PRIMARY KEY AUTOINCREMENT,
    instance text NOT NULL,
    run_id text NOT NULL UNIQUE,
    plan integer REFERENCES sexton_plan (id),
    state text NOT NULL DEFAULT 'RUNNING' CHECK (state IN ('RUNNING', 'SUCCEEDED', 'FAILED')),
    started_at integer NOT NULL,
    ended_at integer,
    report text
);
CREATE INDEX sexton_round_of_instance ON sexton_round (instance, id);

CREATE TABLE sexton_batch (
    id integer PRIMARY KEY AUTOINCREMENT,
    instance text NOT NULL,
    round integer NOT NULL REFERENCES sexton_round (id),
    kind text NOT NULL,
    number integer NOT NULL,
    first text NOT NULL,
    last text NOT NULL,
    lease_epoch integer NOT NULL,
    attempt integer NOT NULL,
    claimed integer NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'DONE')),
    receipt text,
    UNIQUE (round, kind, number)
);

CREATE INDEX sexton_batch_open ON sexton_batch (instance) WHERE state = 'OPEN';

CREATE TABLE sexton_tally (
    round integer NOT NULL REFERENCES sexton_round (id),
    kind text NOT NULL,
    vault text NOT NULL,
    claimed integer NOT NULL DEFAULT 0,
    removed integer NOT NULL DEFAULT 0,
    deleted integer NOT NULL DEFAULT 0,
    absent integer NOT NULL DEFAULT 0,
    hidden integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    bytes_freed integer NOT NULL DEFAULT 0,
    bytes_estimated integer NOT NULL DEFAULT 0,
    bytes_hidden integer NOT NULL DEFAULT 0,
    PRIMARY KEY (round, kind, vault)
);

CREATE TRIGGER sexton_clock_never_goes_back BEFORE UPDATE ON sexton_clock
WHEN NEW.offset_seconds < OLD.offset_seconds BEGIN
    SELECT RAISE(ABORT, 'the clock only moves forward');
END;

CREATE TRIGGER sexton_mark_arrives BEFORE INSERT ON sexton_mark BEGIN
    SELECT RAISE(ABORT, 'SX004 unknown instance; register it with: sexton instance add')
    WHERE NOT EXISTS (SELECT 1 FROM sexton_instance i WHERE i.id = NEW.instance);
    SELECT RAISE(ABORT, 'SX005 gone: history remembers this mark; ids are never used again')
    WHERE EXISTS (SELECT 1 FROM sexton_mark_history h
                  WHERE h.instance = NEW.instance AND h.kind = NEW.kind AND h.id = NEW.id);
    -- INSERT OR REPLACE deletes the old row without any delete trigger.
    SELECT RAISE(ABORT, 'SX001 collected: this mark is claimed')
    WHERE EXISTS (SELECT 1 FROM sexton_mark m
                  WHERE m.instance = NEW.instance AND m.kind = NEW.kind AND m.id = NEW.id AND m.state <> 'MARKED');
    SELECT RAISE(ABORT, 'SX006 an owner names what goes, never its state or its time')
    WHERE NEW.state <> 'MARKED' OR NEW.claimed_at IS NOT NULL OR NEW.batch IS NOT NULL OR NEW.first_pass_at IS NOT NULL
       OR (NEW.expires_at IS NOT NULL AND NEW.kind <> 'prepared')
       OR abs(NEW.marked_at - CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)) > 60000;
END;

CREATE TRIGGER sexton_mark_under_test_clock AFTER INSERT ON sexton_mark
WHEN (SELECT offset_seconds FROM sexton_clock) <> 0 BEGIN
    UPDATE sexton_mark SET marked_at = marked_at + (SELECT offset_seconds FROM sexton_clock) * 1000
    WHERE instance = NEW.instance AND kind = NEW.kind AND id = NEW.id;
END;

CREATE TRIGGER sexton_claimed_is_irrevocable BEFORE UPDATE ON sexton_mark
WHEN OLD.state = 'CLAIMED' AND NEW.state <> 'CLAIMED' BEGIN
    SELECT RAISE(ABORT, 'a claimed mark stays claimed');
END;

CREATE TRIGGER sexton_mark_names_stay BEFORE UPDATE OF instance, kind, id, vault, prefix, keys, expires_at ON sexton_mark BEGIN
    SELECT RAISE(ABORT, 'SX006 what a mark names is never changed');
END;

CREATE TRIGGER sexton_claimed_goes_only_into_history BEFORE DELETE ON sexton_mark
WHEN OLD.state <> 'MARKED' AND NOT EXISTS (
    SELECT 1 FROM sexton_mark_history h
    WHERE h.instance = OLD.instance AND h.kind = OLD.kind AND h.id = OLD.id) BEGIN
    SELECT RAISE(ABORT, 'SX001 collected: this mark is claimed');
END;
