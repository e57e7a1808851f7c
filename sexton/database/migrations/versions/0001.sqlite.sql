-- The schema of Sexton on SQLite: tables named sexton_... in the owner's own file. Instants are integers: milliseconds
-- since 1970. The same schema for PostgreSQL is in 0001.postgresql.sql; its functions prepare, commit and undrop are
-- Python here, in sexton/contract.py. sexton/database/tables/ names the columns for queries.

-- The clock -----------------------------------------------------------------------------------------------------------

-- One row: the deployment that owns this database, and the offset of its clock in seconds. Only demo and test
-- deployments may move the clock.
CREATE TABLE sexton_clock (
    one integer PRIMARY KEY DEFAULT 1 CHECK (one = 1),
    deployment text NOT NULL,
    offset_seconds integer NOT NULL DEFAULT 0 CHECK (offset_seconds >= 0),  -- only ever increased
    works_with text NOT NULL DEFAULT '0001',  -- the oldest version of the schema whose programs may use this database
    CONSTRAINT clock_moves_only_in_demo_and_test CHECK (
        offset_seconds = 0 OR deployment GLOB 'demo-*' OR deployment GLOB 'test-*')
);

CREATE TRIGGER sexton_clock_never_goes_back BEFORE UPDATE ON sexton_clock
WHEN NEW.offset_seconds < OLD.offset_seconds BEGIN
    SELECT RAISE(ABORT, 'the clock only moves forward');
END;

-- Instances and vaults ------------------------------------------------------------------------------------------------

-- One row per instance: a database or lake that Sexton cleans. Its owner decides what its marks mean.
CREATE TABLE sexton_instance (
    id text PRIMARY KEY NOT NULL CHECK (id GLOB '[a-z0-9]*' AND id NOT GLOB '*[^a-z0-9_-]*' AND length(id) <= 63),
    mode text NOT NULL DEFAULT 'observe' CHECK (mode IN ('observe', 'enabled', 'deleted')),
    created_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    enabled_at integer,
    turn_at integer,  -- when its current schedule slot began
    retry_at integer,
    failures integer NOT NULL DEFAULT 0,
    last_success_at integer,
    -- which installed owner answers for the marks, and what it needs to know of this instance; never changed
    owner text NOT NULL DEFAULT 'sql',
    owner_options text NOT NULL DEFAULT '{}',
    knows_live boolean NOT NULL DEFAULT false,  -- the owner knows which objects are live, without a view
    owner_cursor text NOT NULL DEFAULT '',  -- up to where the owner's list of garbage was read
    -- either ids may contain _, or prefixes may end with it: 12_ is also how 12_3 begins; never changed
    underscore_in_ids integer NOT NULL DEFAULT 0 CHECK (underscore_in_ids IN (0, 1)),
    retentions text,  -- kind -> seconds, as an operator agreed to them
    -- how far the owner has come, in its own numbers (not a time); a finished protection waits until it is past
    watermark integer,
    watermark_at integer,
    -- regular expression that all keys of the owner match; a key that matches and that no record names is an orphan
    key_pattern text NOT NULL DEFAULT '',
    -- the view that shows which objects are live: SCHEMA.VIEW, on SQLite VIEW; 'none': it has none; '': not named yet
    live_view text NOT NULL DEFAULT '',
    -- number of a check: later checks are not compared with it and those before it
    check_base integer NOT NULL DEFAULT 0
);

-- One row per instance, and one (*) for all of them: every deciding transaction updates it first.
CREATE TABLE sexton_instance_guard (
    instance text PRIMARY KEY NOT NULL,
    seq integer NOT NULL DEFAULT 0
);
INSERT INTO sexton_instance_guard (instance) VALUES ('*');

-- One row per vault of an instance; the probe is what its store was seen to do.
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
    -- what a delete does in a versioned bucket
    versions text NOT NULL DEFAULT 'keep' CHECK (versions IN ('keep', 'purge')),
    conditional integer NOT NULL DEFAULT 0,  -- a delete names the ETag that it means
    probe text,  -- what the store was seen to do
    announced_round integer NOT NULL DEFAULT 0,  -- the last round whose marker was written; 0: none
    PRIMARY KEY (instance, name)
);

-- Marks: the contract with the owner ----------------------------------------------------------------------------------

-- One row per mark: these objects may be deleted after their retention.
CREATE TABLE sexton_mark (
    instance text NOT NULL,
    kind text NOT NULL,
    id text NOT NULL,
    keys text,
    prefix text,
    vault text,
    state text NOT NULL DEFAULT 'MARKED',
    marked_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    expires_at integer,  -- only of a prepared mark
    extra_retention_seconds integer NOT NULL DEFAULT 0,  -- before the retention of its kind starts (docs/adr/0040)
    retention_starts_at integer NOT NULL
        GENERATED ALWAYS AS (coalesce(expires_at, marked_at + extra_retention_seconds * 1000)) STORED,
    parent_kind text,
    parent_id text,
    bytes integer NOT NULL DEFAULT 0,
    owner_txn text,
    lease_epoch integer,
    batch integer,
    claimed_at integer,
    first_pass_at integer,  -- when the first pass of its prefix ended
    objects_gone integer NOT NULL DEFAULT 0,
    bytes_gone integer NOT NULL DEFAULT 0,
    quarantined_reason text,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    next_try_at integer,
    lacking text,  -- why its record stays although its known files are gone
    absorbed integer NOT NULL DEFAULT 0,  -- deleted with the files of its parent
    claimed_batch integer,  -- the batch that claimed it; the second pass has another batch
    etags text,  -- of the objects that keys name; another object under such a key is not deleted
    files_after integer,  -- its files have higher numbers in its batch
    last_file integer,  -- and numbers up to this one
    finished integer NOT NULL DEFAULT 0,  -- all files are gone; only the owner's records and this one are left
    -- id comes first (docs/adr/0007): with instance and kind first, a planner without statistics reads every mark of
    -- the kind and filters.
    PRIMARY KEY (id, kind, instance),
    CONSTRAINT mark_kind_is_a_name CHECK (
        kind GLOB '[a-z]*' AND kind NOT GLOB '*[^a-z0-9_-]*' AND length(kind) <= 32),
    CONSTRAINT mark_id_is_text_of_128 CHECK (
        id NOT GLOB '*[^A-Za-z0-9._-]*' AND instr(id, char(0)) = 0 AND length(id) BETWEEN 1 AND 128),
    CONSTRAINT mark_state_is_known CHECK (state IN ('MARKED', 'FENCED', 'CLAIMED')),
    CONSTRAINT mark_names_prefix_or_keys CHECK (prefix IS NULL OR keys IS NULL),
    CONSTRAINT mark_prefix_ends_with_a_separator CHECK (
        prefix GLOB '*[^A-Za-z0-9.-]' AND unicode(substr(prefix, -1)) < 128),
    CONSTRAINT mark_prefix_stays_inside CHECK (
        instr(prefix, char(0)) = 0 AND substr(prefix, 1, 1) <> '/' AND substr(prefix, 1, 8) <> '_sexton/'
        AND instr(prefix, '//') = 0 AND instr('/' || prefix || '/', '/../') = 0
        AND instr('/' || prefix || '/', '/./') = 0),
    CONSTRAINT mark_keys_are_1_to_1000 CHECK (
        keys IS NULL OR (json_valid(keys) AND json_type(keys) = 'array'
        AND json_array_length(keys) BETWEEN 1 AND 1000)),
    CONSTRAINT mark_bytes_are_0_to_1_pib CHECK (typeof(bytes) = 'integer' AND bytes BETWEEN 0 AND 1125899906842624),
    CONSTRAINT mark_names_are_text CHECK (
        typeof(instance) = 'text' AND typeof(kind) = 'text' AND typeof(id) = 'text'
        AND typeof(vault) IN ('text', 'null') AND typeof(prefix) IN ('text', 'null')
        AND typeof(keys) IN ('text', 'null')
        AND typeof(parent_kind) IN ('text', 'null') AND typeof(parent_id) IN ('text', 'null')),
    -- A worker reads many marks at once. sexton_mark_arrives limits each key, also to the length of an S3 key.
    CONSTRAINT mark_texts_have_at_most_1024_bytes CHECK (
        length(CAST(vault AS blob)) <= 1024 AND length(CAST(prefix AS blob)) <= 1024
        AND length(CAST(owner_txn AS blob)) <= 1024
        AND length(CAST(parent_kind AS blob)) <= 1024 AND length(CAST(parent_id AS blob)) <= 1024),
    CONSTRAINT mark_extra_retention_is_0_to_10_years CHECK (
        typeof(extra_retention_seconds) = 'integer' AND extra_retention_seconds BETWEEN 0 AND 315360000
        AND (extra_retention_seconds = 0 OR (kind <> 'prepared' AND expires_at IS NULL))),
    CONSTRAINT mark_parent_is_whole CHECK ((parent_kind IS NULL) = (parent_id IS NULL))
);
CREATE INDEX sexton_mark_claimed ON sexton_mark (instance, batch, last_file, kind, id) WHERE state = 'CLAIMED';
CREATE INDEX sexton_mark_late ON sexton_mark (instance, kind, id) WHERE state = 'CLAIMED' AND first_pass_at IS NOT NULL;
CREATE INDEX sexton_mark_children ON sexton_mark (instance, parent_kind, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX sexton_mark_quarantined ON sexton_mark (instance, quarantined_reason) WHERE quarantined_reason IS NOT NULL;
CREATE INDEX sexton_mark_fenced ON sexton_mark (instance) WHERE state = 'FENCED';
-- A fenced mark that a keeper retained is still due.
CREATE INDEX sexton_mark_due ON sexton_mark (instance, kind, retention_starts_at, id)
    WHERE state <> 'CLAIMED' AND quarantined_reason IS NULL;
-- sexton why finds a key with these. It reads each mark with several keys: an index of all keys would be larger than
-- the marks, and every claim would write it again.
CREATE INDEX sexton_mark_prefix ON sexton_mark (prefix) WHERE prefix IS NOT NULL;
CREATE INDEX sexton_mark_one_key ON sexton_mark (json_extract(keys, '$[0]')) WHERE json_array_length(keys) = 1;
CREATE INDEX sexton_mark_more_keys ON sexton_mark (instance) WHERE json_array_length(keys) > 1;

-- One row per mark whose files are confirmed gone, or that an operator discarded; ids are never used again.
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
    discarded text,  -- why an operator discarded the mark; null: not discarded
    absorbed integer NOT NULL DEFAULT 0,  -- deleted with the files of its parent
    PRIMARY KEY (id, kind, instance)
);
CREATE INDEX sexton_mark_history_gone ON sexton_mark_history (instance, gone_at);
CREATE INDEX sexton_mark_history_children ON sexton_mark_history (instance, parent_kind, parent_id)
    WHERE parent_id IS NOT NULL;
CREATE INDEX sexton_mark_history_prefix ON sexton_mark_history (prefix) WHERE prefix IS NOT NULL;
CREATE INDEX sexton_mark_history_one_key ON sexton_mark_history (json_extract(keys, '$[0]')) WHERE json_array_length(keys) = 1;
CREATE INDEX sexton_mark_history_more_keys ON sexton_mark_history (instance) WHERE json_array_length(keys) > 1;

-- Refuse marks of unknown and deleted instances, of ids that are gone, with long keys, and columns that only Sexton may
-- set.
CREATE TRIGGER sexton_mark_arrives BEFORE INSERT ON sexton_mark BEGIN
    SELECT RAISE(ABORT, 'SX004 unknown instance, or deleted; register another one with: sexton instance add')
    WHERE NOT EXISTS (SELECT 1 FROM sexton_instance i WHERE i.id = NEW.instance AND i.mode <> 'deleted');
    SELECT RAISE(ABORT, 'SX005 gone: history remembers this mark; ids are never used again')
    WHERE EXISTS (SELECT 1 FROM sexton_mark_history h
                  WHERE h.instance = NEW.instance AND h.kind = NEW.kind AND h.id = NEW.id);
    SELECT RAISE(ABORT, 'SX006 the id contains _, or the prefix ends with it: sexton instance add --underscore-in-ids')
    WHERE EXISTS (SELECT 1 FROM sexton_instance i WHERE i.id = NEW.instance AND CASE i.underscore_in_ids
        WHEN 1 THEN substr(NEW.prefix, -1) = '_' ELSE instr(NEW.id, '_') > 0 END);
    -- INSERT OR REPLACE deletes the old row without a delete trigger.
    SELECT RAISE(ABORT, 'SX001 collected: this mark is claimed')
    WHERE EXISTS (SELECT 1 FROM sexton_mark m
                  WHERE m.instance = NEW.instance AND m.kind = NEW.kind AND m.id = NEW.id AND m.state <> 'MARKED');
    SELECT RAISE(ABORT, 'SX006 an owner names what goes, never its state or its time')
    WHERE NEW.state <> 'MARKED' OR NEW.claimed_at IS NOT NULL OR NEW.batch IS NOT NULL OR NEW.first_pass_at IS NOT NULL
       OR (NEW.expires_at IS NOT NULL AND (NEW.kind <> 'prepared' OR typeof(NEW.expires_at) <> 'integer'))
       OR NEW.expires_at - CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)
          - (SELECT offset_seconds * 1000 FROM sexton_clock) NOT BETWEEN 1 AND 31622400000
       OR abs(NEW.marked_at - CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)) > 60000;
    SELECT RAISE(ABORT, 'SX006 a key of this mark is too long; a key has at most 1024 bytes, as in S3')
    WHERE EXISTS (SELECT 1 FROM json_each(CASE WHEN json_valid(NEW.keys) THEN NEW.keys END)
                  WHERE length(CAST(value AS blob)) > 1024);
END;

-- A default cannot read a table, so this trigger adds the offset of a demo or test deployment.
CREATE TRIGGER sexton_mark_under_test_clock AFTER INSERT ON sexton_mark
WHEN (SELECT offset_seconds FROM sexton_clock) <> 0 BEGIN
    UPDATE sexton_mark SET marked_at = marked_at + (SELECT offset_seconds FROM sexton_clock) * 1000
    WHERE instance = NEW.instance AND kind = NEW.kind AND id = NEW.id;
END;

-- A mark that is claimed may already have lost files.
CREATE TRIGGER sexton_claimed_is_irrevocable BEFORE UPDATE ON sexton_mark
WHEN OLD.state = 'CLAIMED' AND NEW.state <> 'CLAIMED' BEGIN
    SELECT RAISE(ABORT, 'a claimed mark stays claimed');
END;

-- An owner takes a mark back and marks again; it never changes what a mark names.
CREATE TRIGGER sexton_mark_names_stay BEFORE UPDATE OF instance, kind, id, vault, prefix, keys, expires_at,
    extra_retention_seconds ON sexton_mark BEGIN
    SELECT RAISE(ABORT, 'SX006 what a mark names is never changed');
END;

-- Sexton deletes a claimed mark only after it wrote its row of mark_history.
CREATE TRIGGER sexton_claimed_goes_only_into_history BEFORE DELETE ON sexton_mark
WHEN OLD.state <> 'MARKED' AND NOT EXISTS (
    SELECT 1 FROM sexton_mark_history h
    WHERE h.instance = OLD.instance AND h.kind = OLD.kind AND h.id = OLD.id) BEGIN
    SELECT RAISE(ABORT, 'SX001 collected: this mark is claimed');
END;

-- Rounds: leases, plans, batches, and the pace of deletes -------------------------------------------------------------

-- One row per instance and job: which worker does this job now.
CREATE TABLE sexton_lease (
    instance text NOT NULL,
    job text NOT NULL,
    state text NOT NULL DEFAULT 'IDLE' CHECK (state IN ('IDLE', 'BUSY')),
    owner text NOT NULL DEFAULT '',
    epoch integer NOT NULL DEFAULT 0,  -- increased each time the lease is acquired
    acquired_at integer,
    expires_at integer,
    PRIMARY KEY (instance, job)
);

-- One row per plan: what a round may delete, and who approved what exceeds a limit.
CREATE TABLE sexton_plan (
    id integer PRIMARY KEY AUTOINCREMENT,
    instance text NOT NULL,
    created_at integer NOT NULL,
    state text NOT NULL DEFAULT 'PLANNED' CHECK (state IN ('PLANNED', 'APPLYING', 'APPLIED')),
    planned_by text NOT NULL,
    policy_version text NOT NULL,
    body text NOT NULL,
    awaits text,  -- why an operator must apply the plan before it expires; of a rejected plan: who rejected it, and why
    expires_at integer,
    approved_by text,
    approved_at integer,
    rejected integer NOT NULL DEFAULT 0
);
CREATE INDEX sexton_plan_of_instance ON sexton_plan (instance, id);
CREATE INDEX sexton_plan_open ON sexton_plan (instance, id) WHERE awaits IS NOT NULL;
CREATE INDEX sexton_plan_answered ON sexton_plan (instance, approved_at) WHERE approved_at IS NOT NULL;

-- One row per round: one run over one instance.
CREATE TABLE sexton_round (
    id integer PRIMARY KEY AUTOINCREMENT,
    instance text NOT NULL,
    run_id text NOT NULL UNIQUE,
    plan integer REFERENCES sexton_plan (id),
    state text NOT NULL DEFAULT 'RUNNING' CHECK (state IN ('RUNNING', 'SUCCEEDED', 'FAILED')),
    started_at integer NOT NULL,
    ended_at integer,
    report text,
    waiting text,  -- why a running round holds no lease: paused or backing off
    waiting_since integer
);
CREATE INDEX sexton_round_of_instance ON sexton_round (instance, id);
CREATE INDEX sexton_round_of_plan ON sexton_round (plan) WHERE plan IS NOT NULL;
CREATE INDEX sexton_round_waiting ON sexton_round (instance) WHERE waiting IS NOT NULL;
CREATE INDEX sexton_round_running ON sexton_round (id, instance) WHERE state = 'RUNNING';

-- One row per range: the marks of one kind that one activity claims and deletes.
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
    -- A run that was reset starts its attempts at 1 again: of two workers with one epoch and attempt, the last to open
    -- writes.
    open_count integer NOT NULL DEFAULT 0,
    limited_objects integer NOT NULL DEFAULT 0,  -- objects claimed that count against the limits of 24 hours
    claimed_at integer,  -- when the last of limited_objects were claimed
    -- when a newer attempt took it over; a request of the older one may still be on its way
    taken_over_at integer,
    UNIQUE (round, kind, number)
);
CREATE INDEX sexton_batch_open ON sexton_batch (instance) WHERE state = 'OPEN';
CREATE INDEX sexton_batch_taken_over ON sexton_batch (instance, taken_over_at) WHERE taken_over_at IS NOT NULL;
CREATE INDEX sexton_batch_limited ON sexton_batch (instance, claimed_at) WHERE limited_objects > 0;

-- One row per list of up to 5,000 files that a batch deletes, with the outcome of each once it was tried. Both columns of
-- bytes are compressed JSON (sexton/marks/file_list.py): `files` is never changed, `results` is stored with every page.
CREATE TABLE sexton_file_list (
    batch integer NOT NULL,
    last integer NOT NULL,  -- number of its last file in the batch
    first integer NOT NULL,
    instance text NOT NULL,
    first_key text NOT NULL,
    last_key text NOT NULL,
    files blob NOT NULL,
    results blob NOT NULL,
    PRIMARY KEY (batch, last)
);
CREATE INDEX sexton_file_list_of_instance ON sexton_file_list (instance, batch, last);

-- One row per round, kind and vault: counts of the deletion so far.
CREATE TABLE sexton_tally (
    round integer NOT NULL REFERENCES sexton_round (id),
    kind text NOT NULL,
    vault text NOT NULL,
    listed integer NOT NULL DEFAULT 0,  -- objects found, page by page, also those of marks that are kept then
    claimed integer NOT NULL DEFAULT 0,
    removed integer NOT NULL DEFAULT 0,
    deleted integer NOT NULL DEFAULT 0,
    absent integer NOT NULL DEFAULT 0,
    hidden integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    bytes_freed integer NOT NULL DEFAULT 0,
    bytes_estimated integer NOT NULL DEFAULT 0,
    size_unknown integer NOT NULL DEFAULT 0,  -- objects deleted whose size neither the store nor the owner states
    bytes_hidden integer NOT NULL DEFAULT 0,
    PRIMARY KEY (round, kind, vault)
);

-- One row per counter that outlives its round, by instance, name and label.
CREATE TABLE sexton_counter (
    instance text NOT NULL,
    name text NOT NULL,
    label text NOT NULL,
    value integer NOT NULL DEFAULT 0,
    PRIMARY KEY (instance, name, label)
);

-- One row per place (a partition of a store): the rate at which it accepts deletes, as all workers together learned it.
CREATE TABLE sexton_pace (
    place text PRIMARY KEY NOT NULL,
    keys_per_second integer NOT NULL,
    ceiling integer NOT NULL DEFAULT 0,  -- the rate at which the store last refused; 0: it never has
    throttled_at integer,
    updated_at integer NOT NULL
);

-- One row per place and worker: when the worker last reported, and what it has counted there.
CREATE TABLE sexton_pace_share (
    place text NOT NULL,
    worker text NOT NULL,
    seen_at integer NOT NULL,
    requests integer NOT NULL DEFAULT 0,
    throttled integer NOT NULL DEFAULT 0,
    keys integer NOT NULL DEFAULT 0,
    PRIMARY KEY (place, worker)
);

-- One row per vault with an operator's upper bound for the rate of deletes.
CREATE TABLE sexton_pace_cap (
    instance text NOT NULL,
    vault text NOT NULL,
    keys_per_second integer NOT NULL CHECK (keys_per_second > 0),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since integer NOT NULL,
    PRIMARY KEY (instance, vault)
);

-- One row per Spark worker: how many activities it takes at once, and how many it runs.
CREATE TABLE sexton_spark_worker (
    worker text PRIMARY KEY,
    seen_at integer NOT NULL,
    slots integer NOT NULL,
    busy integer NOT NULL
);

-- One row per worker: its role and build, since when it runs, when it last reported, and the settings in its file.
CREATE TABLE sexton_worker_presence (
    worker text PRIMARY KEY,
    role text NOT NULL,
    build text NOT NULL DEFAULT '',
    started_at integer NOT NULL,
    seen_at integer NOT NULL,
    metrics text NOT NULL DEFAULT '',  -- where it answers GET /metrics; empty: nowhere
    settings text NOT NULL
);

-- Operators: controls and holds ---------------------------------------------------------------------------------------

-- One row per control that an operator set: a stop, a list entry or a window.
CREATE TABLE sexton_control (
    kind text NOT NULL CHECK (kind IN ('stop', 'blacklist', 'whitelist', 'vault_whitelist', 'window')),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    -- the order that set it first; reason and set_by are those of the last one
    first_reason text NOT NULL DEFAULT '',
    first_set_by text NOT NULL DEFAULT '',
    set_at integer,  -- when it was last set; since: when it was first set
    PRIMARY KEY (kind, name)
);

-- One row per setting that an operator changed for all workers: of all instances (''), or of one.
CREATE TABLE sexton_setting (
    instance text NOT NULL DEFAULT '',
    key text NOT NULL CHECK (length(key) BETWEEN 1 AND 100),
    value text NOT NULL CHECK (length(value) BETWEEN 1 AND 100),
    set_at integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    set_by text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    PRIMARY KEY (instance, key)
);

-- One row per hold: an operator's order that blocks deletion of an instance, a mark or a prefix.
CREATE TABLE sexton_hold (
    id integer PRIMARY KEY AUTOINCREMENT,
    instance text NOT NULL REFERENCES sexton_instance (id),
    scope text NOT NULL CHECK (scope IN ('instance', 'mark', 'prefix')),
    mark_kind text,
    mark_id text,
    vault text,
    prefix text,
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    placed_by text NOT NULL,
    placed_at integer NOT NULL,
    expires_at integer NOT NULL,
    released_at integer,
    CONSTRAINT hold_names_what_its_scope_needs CHECK (
        (scope = 'mark') = (mark_kind IS NOT NULL) AND (scope = 'mark') = (mark_id IS NOT NULL)
        AND (scope = 'prefix') = (vault IS NOT NULL) AND (scope = 'prefix') = (prefix IS NOT NULL))
);
CREATE INDEX sexton_hold_of_instance ON sexton_hold (instance, expires_at) WHERE released_at IS NULL;

-- Protection of files that a sync job copies --------------------------------------------------------------------------

-- One row per protection: files that stay while a sync job copies them.
CREATE TABLE sexton_protection (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL REFERENCES sexton_instance,
    job text NOT NULL CHECK (length(job) BETWEEN 1 AND 200),
    owner text NOT NULL,
    description text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('OPEN', 'ACTIVE', 'SOFT')),
    valid_ts integer,
    registered_at integer NOT NULL,
    expires_at integer NOT NULL,
    finished_at integer,
    digest text NOT NULL,
    -- increased with each change of the coverage, so that a claim that read it before sees that it must read it again
    changes integer NOT NULL DEFAULT 0,
    sizes text NOT NULL DEFAULT '[]',  -- lengths of its prefixes, in characters
    filter blob,  -- a Bloom filter of keys
    objects integer NOT NULL DEFAULT 0,  -- objects and prefixes, or the keys of the filter; counted in its job's quota
    bytes integer NOT NULL DEFAULT 0,  -- of the objects that were looked up
    sealed text,  -- the result of its registration
    UNIQUE (instance, job)
);

-- One row per key or prefix that a protection covers. It has no foreign key: an ended protection is deleted at once,
-- its items a few at a time; without the protection they cover nothing.
CREATE TABLE sexton_protection_item (
    instance text NOT NULL,
    vault text NOT NULL,
    key text NOT NULL,
    prefix integer NOT NULL,
    protection integer NOT NULL,
    PRIMARY KEY (instance, vault, key, prefix, protection)
);
CREATE INDEX sexton_protection_item_of ON sexton_protection_item (protection);

-- One row per registered chunk of a protection. The same chunk again changes nothing; another chunk with its number is
-- refused.
CREATE TABLE sexton_protection_chunk (
    protection integer NOT NULL REFERENCES sexton_protection ON DELETE CASCADE,
    number integer NOT NULL,
    digest text NOT NULL,
    result text,  -- the result that was returned for this chunk
    PRIMARY KEY (protection, number)
);

-- Check: do records and objects agree? --------------------------------------------------------------------------------

-- One row per run of the check, which compares an instance's records with its objects.
CREATE TABLE sexton_check_run (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL REFERENCES sexton_instance,
    run text NOT NULL UNIQUE,
    state text NOT NULL CHECK (state IN ('RUNNING', 'WHOLE', 'PARTIAL')),
    cutoff integer NOT NULL,
    ended_at integer,
    evidence text,  -- what the run saw; set at its end
    missing_inputs text,  -- why the run proves nothing; set at its end
    asked_by text NOT NULL DEFAULT '',
    progress text,  -- parts of a long run that are done and need not be repeated
    open_counts text  -- finding type -> open findings at its end, and confirmed ones
);
CREATE INDEX sexton_check_run_of ON sexton_check_run (instance, id);
CREATE INDEX sexton_check_run_cutoff ON sexton_check_run (instance, cutoff);
CREATE INDEX sexton_check_run_running ON sexton_check_run (instance) WHERE state = 'RUNNING';

-- One row per difference between records and objects that a check found.
CREATE TABLE sexton_finding (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL,
    type text NOT NULL CHECK (type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND', 'UPLOAD', 'RECORD', 'FRONT_END')),
    vault text NOT NULL,
    key text NOT NULL,
    expected integer,
    size integer,
    etag text NOT NULL DEFAULT '',
    record text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'ACCEPTED', 'REPAIRED', 'GONE')),
    first_seen integer NOT NULL,
    seen_in integer NOT NULL,  -- the last run that saw it
    proven_at integer,  -- the cutoff of the first run of an unbroken row of whole runs that saw it
    confirmed_at integer,
    accepted_by text NOT NULL DEFAULT '',
    detail text NOT NULL DEFAULT '',
    proven_in integer,  -- the last whole run that saw it
    mark text NOT NULL DEFAULT '',  -- id of the mark that a repair made of it
    UNIQUE (instance, type, vault, key)
);
CREATE INDEX sexton_finding_in ON sexton_finding (instance, seen_in);
CREATE INDEX sexton_finding_mark ON sexton_finding (instance, mark) WHERE mark <> '';

-- WAL: purges of Kafka topics -----------------------------------------------------------------------------------------

-- One row per Kafka topic that is purged.
CREATE TABLE sexton_wal_topic (
    name text PRIMARY KEY NOT NULL,
    instance text NOT NULL CHECK (instance <> ''),  -- whose topic it is: scopes of tokens are compared with it
    kafka_id text NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    mode text NOT NULL DEFAULT 'delete' CHECK (mode IN ('delete', 'logical')),
    floor integer CHECK (floor > 0),  -- the first entry that Sexton never deleted; only ever raised
    log_start integer,  -- as last observed
    log_end integer,  -- as last observed
    quarantined text NOT NULL DEFAULT '',
    generation integer,
    map_digest text NOT NULL DEFAULT '',
    mapped_at integer,
    emptied_at integer,
    entry_bytes real NOT NULL DEFAULT 0,
    entry_bytes_at integer,
    checked_at integer,  -- when a purge last decided about it
    ok_at integer,  -- when it was last enabled, or purged without a fault
    fault text NOT NULL DEFAULT '',  -- what the log refused in the last purge
    freed integer NOT NULL DEFAULT 0,  -- entries, over its whole life
    blocked text NOT NULL DEFAULT '{}',
    seq integer NOT NULL DEFAULT 0
);

-- One row per region of a topic: the first entry that it needs.
CREATE TABLE sexton_wal_region (
    topic text NOT NULL REFERENCES sexton_wal_topic ON DELETE CASCADE,
    region text NOT NULL,
    epoch integer NOT NULL DEFAULT 0,
    first integer NOT NULL DEFAULT 0,
    keep_from integer CHECK (keep_from >= 0),  -- the first entry that the region needs; null: not reported yet
    flushed text NOT NULL DEFAULT '[]',  -- per stream, the first entry after the highest flushed one that was reported
    pending_keep_from integer,  -- reported above the known end of the log, not applied yet
    pending_flushed text,
    source text NOT NULL CHECK (source IN ('map', 'flushed', 'idle', 'opened', 'reset')),
    -- GONE: it needs nothing, and may come back with an old manifest
    state text NOT NULL CHECK (state IN ('MAPPED', 'MOVED', 'DROPPED', 'GONE')),
    reported_at integer,
    mapped_node text NOT NULL DEFAULT '',  -- the only one that may report or open the region; empty: the map names none
    node text NOT NULL DEFAULT '',  -- that has opened or reported it in this epoch; without a mapped one, no other may
    releases_at integer,
    until integer,
    PRIMARY KEY (topic, region)
);
CREATE INDEX sexton_wal_region_retaining ON sexton_wal_region (topic, region) WHERE state <> 'GONE';

-- One row per region that is being opened and reads the topic from start on.
CREATE TABLE sexton_wal_pin (
    id text PRIMARY KEY NOT NULL,
    topic text NOT NULL REFERENCES sexton_wal_topic ON DELETE CASCADE,
    region text NOT NULL,
    start integer NOT NULL,
    node text NOT NULL,
    kafka_id text NOT NULL,  -- of the topic as it was known at the opening
    log_end integer NOT NULL,  -- of the topic as it was known at the opening
    opened_at integer NOT NULL,
    expires_at integer NOT NULL
);
CREATE INDEX sexton_wal_pin_of ON sexton_wal_pin (topic);

-- One row per floor of a topic: which regions blocked more, and when Kafka followed.
CREATE TABLE sexton_wal_purge (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    topic text NOT NULL,
    kafka_id text NOT NULL,
    floor integer NOT NULL,
    at integer NOT NULL,
    log_end integer NOT NULL,
    holders text NOT NULL,  -- which region needed which entry, the lowest first
    done_at integer,  -- when Kafka was seen to have followed
    log_start integer,  -- when the floor was raised; from done_at on, as Kafka had it then
    freed integer,  -- entries between the two log starts
    UNIQUE (topic, kafka_id, floor)
);
CREATE INDEX sexton_wal_purge_open ON sexton_wal_purge (topic, floor) WHERE done_at IS NULL;

-- One row per node that reports, with the URL at which Sexton asks it to flush.
CREATE TABLE sexton_wal_node (
    instance text NOT NULL,  -- nodes of two instances may have the same name
    name text NOT NULL,
    url text NOT NULL,
    seen_at integer NOT NULL,
    PRIMARY KEY (instance, name)
);

-- One row per topic of the embedded log, which replaces Kafka on one machine.
CREATE TABLE sexton_wal_log (
    name text PRIMARY KEY NOT NULL,
    id text NOT NULL,
    partitions integer NOT NULL DEFAULT 1,
    compacted boolean NOT NULL DEFAULT false,
    log_start integer NOT NULL DEFAULT 0,
    log_end integer NOT NULL DEFAULT 0
);

-- One row per entry of the embedded log.
CREATE TABLE sexton_wal_entry (
    topic text NOT NULL REFERENCES sexton_wal_log ON DELETE CASCADE,
    id integer NOT NULL,
    payload blob NOT NULL,
    PRIMARY KEY (topic, id)
);

-- Replication: the journal, binlogs, backends and replicas ------------------------------------------------------------

-- One row per instance: the last sequence number of its journal. Each writer locks this row, so the instance has one
-- sequence.
CREATE TABLE sexton_journal_head (
    instance text PRIMARY KEY NOT NULL REFERENCES sexton_instance,
    seq integer NOT NULL DEFAULT 0,
    trimmed integer NOT NULL DEFAULT 0
);

-- One row per journal entry that followers replay.
CREATE TABLE sexton_journal (
    instance text NOT NULL REFERENCES sexton_instance,
    seq integer NOT NULL,
    op integer NOT NULL,
    body text NOT NULL,
    at integer NOT NULL,
    PRIMARY KEY (instance, seq)
);

-- One row per follower of a journal.
CREATE TABLE sexton_journal_follower (
    instance text NOT NULL REFERENCES sexton_instance,
    name text NOT NULL,
    applied integer NOT NULL,  -- the last entry that it has
    seen_at integer NOT NULL,
    lost_at integer,  -- from then on no entry is retained for it; it must start over
    PRIMARY KEY (instance, name)
);

-- One row per instance: when its binlogs were last checked, by the database's clock, and counts of cuts and refusals.
CREATE TABLE sexton_binlog_round (
    instance text PRIMARY KEY NOT NULL REFERENCES sexton_instance,
    checked_at integer,
    ok_at integer,
    steady_since integer,  -- since when runs follow one another: silence before it makes no consumer LOST
    refused text NOT NULL DEFAULT '',  -- why the last run cut nothing
    cuts integer NOT NULL DEFAULT 0,
    refusals integer NOT NULL DEFAULT 0
);

-- One row per binlog: of a database (tbl is empty), and of each of its tables.
CREATE TABLE sexton_binlog_log (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    ttl_seconds integer CHECK (ttl_seconds >= 0),  -- null: records never expire
    max_bytes integer CHECK (max_bytes >= 0),
    max_history_nums integer CHECK (max_history_nums >= 0),
    last_seq integer NOT NULL DEFAULT 0,
    last_ts integer NOT NULL DEFAULT 0,  -- ms since 1970, the latest of any record so far
    records integer NOT NULL DEFAULT 0,  -- of all that were ever stored
    bytes integer NOT NULL DEFAULT 0,  -- of all that were ever stored
    gone_records integer NOT NULL DEFAULT 0,
    gone_bytes integer NOT NULL DEFAULT 0,
    watermark integer NOT NULL DEFAULT 0,  -- all records up to here are deleted
    -- no record up to here is in this log, though some may be stored for other logs
    starts_after integer NOT NULL DEFAULT 0,
    skipped integer NOT NULL DEFAULT 0,  -- the last record that was not stored, because no log retained it
    cut_at integer,
    held text NOT NULL DEFAULT '{}',
    held_since integer,
    awaiting_seq integer,  -- up to where a cut waits for an operator's approval
    awaiting_since integer,
    approved integer NOT NULL DEFAULT 0,  -- up to where an operator has approved the cut
    dropped_at integer,
    PRIMARY KEY (instance, db, tbl)
);

-- One row per binlog record.
CREATE TABLE sexton_binlog (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    seq integer NOT NULL,
    ts integer NOT NULL,  -- no earlier record has a later one, and it is not later than the moment of its arrival
    sent_ts integer NOT NULL,  -- the timestamp of the record as its owner sent it
    type text NOT NULL,
    tables text NOT NULL,
    data text NOT NULL,
    bytes integer NOT NULL,
    ordinal integer NOT NULL,  -- number of the record in the log of its database
    bytes_before integer NOT NULL,  -- of all records before it, ever
    PRIMARY KEY (instance, db, seq)
);

-- One row per record in the log of one table; tbl is empty for a record that names no table.
CREATE TABLE sexton_binlog_table_record (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL,
    seq integer NOT NULL,
    ordinal integer NOT NULL,  -- ordinal of the record in this log
    bytes_before integer NOT NULL,  -- of all records before it in this log, ever
    PRIMARY KEY (instance, db, tbl, seq)
);
CREATE INDEX sexton_binlog_table_record_by_seq ON sexton_binlog_table_record (instance, db, seq);

-- One row per version of a partition that an UPSERT record made.
CREATE TABLE sexton_binlog_partition_version (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL,
    seq integer NOT NULL,
    part text NOT NULL,
    version integer NOT NULL,
    PRIMARY KEY (instance, db, tbl, seq, part)
);

-- One row per partition: up to which version its binlogs may be deleted, over all cuts so far.
CREATE TABLE sexton_binlog_partition_cut (
    instance text NOT NULL REFERENCES sexton_instance,
    db text NOT NULL,
    tbl text NOT NULL,
    part text NOT NULL,
    version integer NOT NULL,
    propagated boolean NOT NULL DEFAULT false,  -- its replicas know this version
    PRIMARY KEY (instance, db, tbl, part)
);
CREATE INDEX sexton_binlog_partition_cut_new ON sexton_binlog_partition_cut (instance) WHERE NOT propagated;

-- One row per consumer of a binlog.
CREATE TABLE sexton_binlog_consumer (
    instance text NOT NULL REFERENCES sexton_instance,
    name text NOT NULL,
    db text NOT NULL,
    tbl text NOT NULL DEFAULT '',
    acked integer NOT NULL,  -- it has all records up to here
    since integer NOT NULL,
    seen_at integer NOT NULL,  -- when it last acknowledged
    lost_at integer,  -- from then on it blocks no deletion
    PRIMARY KEY (instance, name, db, tbl)
);
CREATE INDEX sexton_binlog_consumer_of ON sexton_binlog_consumer (instance, db, tbl);

-- One row per backend (a storage node), with its newest report.
CREATE TABLE sexton_backend (
    instance text NOT NULL REFERENCES sexton_instance,
    name text NOT NULL,
    boot integer NOT NULL DEFAULT -1,  -- with sequence: of the newest report
    sequence integer NOT NULL DEFAULT -1,
    reported_at integer,
    pulled_at integer,
    queue_at integer,  -- when a worker beside it last pulled orders
    PRIMARY KEY (instance, name)
);

-- One row per tablet's copy on a backend.
CREATE TABLE sexton_replica (
    instance text NOT NULL REFERENCES sexton_instance,
    uid text NOT NULL,
    backend text NOT NULL,
    tablet text NOT NULL,
    db text NOT NULL,
    tbl text NOT NULL,
    part text NOT NULL,
    version integer NOT NULL DEFAULT -1,  -- it has all versions up to here without a gap
    failed integer NOT NULL DEFAULT -1,  -- the last failed version (LFV); -1: none
    succeeded integer NOT NULL DEFAULT -1,  -- the last succeeded version (LSV); -1: none
    needs integer NOT NULL DEFAULT 0,  -- the first version that it lacks
    highest integer NOT NULL DEFAULT -1,
    bad_since integer,  -- null: nothing is wrong
    gap_since integer,  -- null: nothing is wrong
    crossing boolean NOT NULL DEFAULT false,
    boot integer NOT NULL DEFAULT -1,
    sequence integer NOT NULL DEFAULT -1,
    fresh_until integer NOT NULL,  -- until when its last report counts
    row_count integer NOT NULL DEFAULT 0,
    bytes integer NOT NULL DEFAULT 0,
    -- why it does not count as a replica until it has a full copy; empty: it counts
    full_copy text NOT NULL DEFAULT '',
    full_copy_at integer,
    full_copy_until integer NOT NULL DEFAULT -1,  -- it counts again when it has this version
    gone integer NOT NULL DEFAULT -1,  -- versions of the tablet up to here may be deleted, on any backend
    desired integer NOT NULL DEFAULT -1,  -- up to where its binlogs should be deleted
    granted integer NOT NULL DEFAULT -1,  -- up to where its binlogs may be deleted
    acked integer NOT NULL DEFAULT -1,  -- up to where its binlogs are deleted
    problem text NOT NULL DEFAULT '',
    dropped boolean NOT NULL DEFAULT false,  -- its table was dropped, so no replica needs its versions
    PRIMARY KEY (instance, uid, backend)
);
CREATE INDEX sexton_replica_tablet ON sexton_replica (instance, tablet);
CREATE INDEX sexton_replica_part ON sexton_replica (instance, db, tbl, part);
CREATE INDEX sexton_replica_due ON sexton_replica (instance, backend, uid) WHERE desired > acked;
CREATE INDEX sexton_replica_stale ON sexton_replica (instance, fresh_until) WHERE full_copy = '' AND NOT dropped;
CREATE INDEX sexton_replica_unwell ON sexton_replica (instance) WHERE bad_since IS NOT NULL OR gap_since IS NOT NULL;
CREATE INDEX sexton_replica_aside ON sexton_replica (instance) WHERE full_copy <> '' OR problem <> '' OR crossing;

-- Access: tokens, users and the call log ------------------------------------------------------------------------------

-- One row per API token; only the digest of its secret is stored.
CREATE TABLE sexton_token (
    id text PRIMARY KEY NOT NULL CHECK (length(id) = 12),
    scope text NOT NULL,
    digest text NOT NULL CHECK (length(digest) = 64),  -- of the secret, in hex; the secret itself is stored nowhere
    note text NOT NULL DEFAULT '',
    created_at integer NOT NULL,
    created_by text NOT NULL,
    expires_at integer NOT NULL,
    revoked_at integer,
    revoked_by text NOT NULL DEFAULT '',
    last_used_at integer,  -- to about a minute
    of_user text  -- the user whose password it was given for; null: made at the command line
);
CREATE INDEX sexton_token_of_user ON sexton_token (of_user) WHERE of_user IS NOT NULL;
CREATE INDEX sexton_token_over ON sexton_token (expires_at) WHERE of_user IS NOT NULL;

-- One row per user who logs in with a password.
CREATE TABLE sexton_api_user (
    name text PRIMARY KEY NOT NULL,
    hash text NOT NULL,  -- of the password, by argon2id; empty: the user was removed
    scope text NOT NULL,
    created_at integer NOT NULL,
    created_by text NOT NULL,
    changed_at integer NOT NULL,
    removed_at integer,
    removed_by text NOT NULL DEFAULT ''
);

-- One row per request of the API that had an Idempotency-Key, for a day.
CREATE TABLE sexton_answer (
    who text NOT NULL,
    key text NOT NULL,
    request text NOT NULL CHECK (length(request) = 64),  -- halves of SHA-256: of what it asks for, of the scopes
    at integer NOT NULL,
    status integer,  -- null: it is not known yet
    body text,  -- null: it was shown once, or has no text
    PRIMARY KEY (who, key)
);
CREATE INDEX sexton_answer_at ON sexton_answer (at);

-- One row per source and slot with recent failed logins.
CREATE TABLE sexton_login_failure (
    source text NOT NULL,  -- an address, or a network of IPv6
    -- a few bits of a digest of the login name, which may be a password in the wrong field; empty: all names together
    slot text NOT NULL,
    failures integer NOT NULL CHECK (failures >= 0),
    last_at integer NOT NULL,
    PRIMARY KEY (source, slot)
);
CREATE INDEX sexton_login_failure_last ON sexton_login_failure (last_at);

-- One row per event of a call: its beginning, its outcome, further calls like it. Rows form a chain and never change.
CREATE TABLE sexton_call (
    id integer PRIMARY KEY NOT NULL,  -- without gaps
    at integer NOT NULL,
    who text NOT NULL,
    source text NOT NULL,
    role text NOT NULL DEFAULT '',  -- the database role that wrote the row; SQLite has none
    action text NOT NULL,
    instance text NOT NULL DEFAULT '',
    subject text NOT NULL DEFAULT '',
    outcome text NOT NULL,
    reason text NOT NULL DEFAULT '',
    begun_id integer,  -- the first row of the same call; null: this is it
    times integer NOT NULL DEFAULT 1 CHECK (times >= 0),  -- how many calls the row stands for
    previous text NOT NULL CHECK (length(previous) = 64),  -- the hash of the row before
    hash text NOT NULL CHECK (length(hash) = 64)  -- SHA-256 of all other columns
);
CREATE INDEX sexton_call_of ON sexton_call (instance, id);
CREATE INDEX sexton_call_begun ON sexton_call (begun_id) WHERE begun_id IS NOT NULL;

-- One row: the newest call, and the newest of those that were deleted because of their age; 0: none.
CREATE TABLE sexton_call_head (
    one integer PRIMARY KEY NOT NULL CHECK (one = 1),
    id integer NOT NULL,
    hash text NOT NULL,
    trimmed_id integer NOT NULL,
    trimmed_hash text NOT NULL
);
INSERT INTO sexton_call_head
VALUES (1, 0, printf('%064d', 0), 0, printf('%064d', 0));
