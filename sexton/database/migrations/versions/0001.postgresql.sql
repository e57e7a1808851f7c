-- The schema of Sexton on PostgreSQL. Everything is in the schema "sexton". The owner uses one table, mark, and the
-- functions prepare, commit and undrop. The same schema for SQLite is in 0001.sqlite.sql; sexton/database/tables/ names
-- the columns for queries from Python.
CREATE SCHEMA IF NOT EXISTS sexton;
DO $$ BEGIN
    IF (SELECT nspowner FROM pg_namespace WHERE nspname = 'sexton')
        <> (SELECT oid FROM pg_roles WHERE rolname = current_user) THEN
        RAISE EXCEPTION 'schema sexton belongs to another role than %, which could change what is created in it',
            current_user;
    END IF;
END $$;
-- No function or operator of another schema is found by its name alone, as one in public would be.
SET LOCAL search_path = pg_catalog, pg_temp;

-- The clock -----------------------------------------------------------------------------------------------------------

-- One row: the deployment that owns this database, and the offset of its clock in seconds. Only demo and test
-- deployments may move the clock.
CREATE TABLE sexton.clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    deployment text NOT NULL,
    offset_seconds bigint NOT NULL DEFAULT 0 CHECK (offset_seconds >= 0),  -- only ever increased
    works_with text NOT NULL DEFAULT '0001',  -- the oldest version of the schema whose programs may use this database
    CONSTRAINT clock_moves_only_in_demo_and_test CHECK (offset_seconds = 0 OR deployment ~ '^(demo|test)-')
);

-- Return the time of the deployment, in whole milliseconds.
CREATE FUNCTION sexton.now() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN date_trunc('milliseconds', clock_timestamp())
        + (SELECT offset_seconds FROM sexton.clock) * interval '1 second';
END $$;

CREATE FUNCTION sexton.clock_never_goes_back() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the clock only moves forward';
END $$;
CREATE TRIGGER clock_never_goes_back BEFORE UPDATE ON sexton.clock FOR EACH ROW
    WHEN (NEW.offset_seconds < OLD.offset_seconds) EXECUTE FUNCTION sexton.clock_never_goes_back();

-- Instances and vaults ------------------------------------------------------------------------------------------------

-- One row per instance: a database or lake that Sexton cleans. Its owner decides what its marks mean.
CREATE TABLE sexton.instance (
    id text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    mode text NOT NULL DEFAULT 'observe' CHECK (mode IN ('observe', 'enabled', 'deleted')),
    created_at timestamptz NOT NULL DEFAULT sexton.now(),
    enabled_at timestamptz,
    turn_at timestamptz,  -- when its current schedule slot began
    retry_at timestamptz,
    failures integer NOT NULL DEFAULT 0,
    last_success_at timestamptz,
    -- which installed owner answers for the marks, and what it needs to know of this instance; never changed
    owner text NOT NULL DEFAULT 'sql',
    owner_options jsonb NOT NULL DEFAULT '{}',
    knows_live boolean NOT NULL DEFAULT false,  -- the owner knows which objects are live, without a view
    owner_cursor text NOT NULL DEFAULT '',  -- up to where the owner's list of garbage was read
    -- either ids may contain _, or prefixes may end with it: 12_ is also how 12_3 begins; never changed
    underscore_in_ids boolean NOT NULL DEFAULT false,
    retentions jsonb,  -- kind -> seconds, as an operator agreed to them
    -- how far the owner has come, in its own numbers (not a time); a finished protection waits until it is past
    watermark bigint,
    watermark_at timestamptz,
    -- regular expression that all keys of the owner match; a key that matches and that no record names is an orphan
    key_pattern text NOT NULL DEFAULT '',
    -- the view that shows which objects are live: SCHEMA.VIEW, on SQLite VIEW; 'none': it has none; '': not named yet
    live_view text NOT NULL DEFAULT '',
    -- number of a check: later checks are not compared with it and those before it
    check_base bigint NOT NULL DEFAULT 0
);

-- One row per PostgreSQL role and instance whose marks the role may read, make, commit and undrop.
CREATE TABLE sexton.instance_role (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance ON DELETE CASCADE,
    role text COLLATE "C" NOT NULL,
    role_oid oid NOT NULL,  -- a role that is created again under this name has another one, and no grant
    PRIMARY KEY (instance, role)
);

-- One row per instance, and one (*) for all of them: every deciding transaction updates it first.
CREATE TABLE sexton.instance_guard (
    instance text PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0
);
INSERT INTO sexton.instance_guard (instance) VALUES ('*');

-- One row per vault of an instance; the probe is what its store was seen to do.
CREATE TABLE sexton.vault (
    instance text NOT NULL REFERENCES sexton.instance (id),
    name text NOT NULL CHECK (name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    uuid text NOT NULL UNIQUE,
    kind text NOT NULL CHECK (kind IN ('s3', 'local')),
    location text NOT NULL,
    prefix text NOT NULL DEFAULT '',
    endpoint text NOT NULL DEFAULT '',
    region text NOT NULL DEFAULT '',
    profile text NOT NULL DEFAULT '',
    deployment text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT sexton.now(),
    -- what a delete does in a versioned bucket
    versions text NOT NULL DEFAULT 'keep' CHECK (versions IN ('keep', 'purge')),
    conditional boolean NOT NULL DEFAULT false,  -- a delete names the ETag that it means
    probe jsonb,  -- what the store was seen to do
    announced_round bigint NOT NULL DEFAULT 0,  -- the last round whose marker was written; 0: none
    PRIMARY KEY (instance, name)
);

-- Marks: the contract with the owner ----------------------------------------------------------------------------------

-- One row per mark: these objects may be deleted after their retention.
CREATE TABLE sexton.mark (
    instance text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- The files come early: a search for the beginning of a key reads this far into every row.
    keys jsonb,
    prefix text COLLATE "C",
    vault text COLLATE "C",
    state text NOT NULL DEFAULT 'MARKED',
    marked_at timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    expires_at timestamptz,  -- only of a prepared mark
    extra_retention_seconds integer NOT NULL DEFAULT 0,  -- before the retention of its kind starts (docs/adr/0040)
    -- In UTC, because timestamptz + interval depends on the session's time zone and so cannot be stored.
    retention_starts_at timestamptz NOT NULL GENERATED ALWAYS AS (coalesce(expires_at,
        (marked_at AT TIME ZONE 'UTC' + extra_retention_seconds * interval '1 second') AT TIME ZONE 'UTC')) STORED,
    parent_kind text COLLATE "C",
    parent_id text COLLATE "C",
    bytes bigint NOT NULL DEFAULT 0,
    owner_txn text,
    lease_epoch bigint,
    batch bigint,
    claimed_at timestamptz,
    first_pass_at timestamptz,  -- when the first pass of its prefix ended
    objects_gone bigint NOT NULL DEFAULT 0,
    bytes_gone bigint NOT NULL DEFAULT 0,
    quarantined_reason text,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    next_try_at timestamptz,
    lacking text,  -- why its record stays although its known files are gone
    absorbed boolean NOT NULL DEFAULT false,  -- deleted with the files of its parent
    claimed_batch bigint,  -- the batch that claimed it; the second pass has another batch
    etags jsonb,  -- of the objects that keys name; another object under such a key is not deleted
    written jsonb,  -- when these were last written, by their store's clock; one that was written again is not deleted
    files_after bigint,  -- its files have higher numbers in its batch
    last_file bigint,  -- and numbers up to this one
    finished boolean NOT NULL DEFAULT false,  -- all files are gone; only the owner's records and this one are left
    -- id comes first (docs/adr/0007): with instance and kind first, a planner without statistics reads every mark of
    -- the kind and filters.
    PRIMARY KEY (id, kind, instance),
    CONSTRAINT mark_kind_is_a_name CHECK (kind ~ '^[a-z][a-z0-9_-]{0,31}$'),
    CONSTRAINT mark_id_is_text_of_128 CHECK (id ~ '^[A-Za-z0-9._-]{1,128}$'),
    CONSTRAINT mark_state_is_known CHECK (state IN ('MARKED', 'FENCED', 'CLAIMED')),
    CONSTRAINT mark_names_prefix_or_keys CHECK (prefix IS NULL OR keys IS NULL),
    CONSTRAINT mark_prefix_ends_with_a_separator CHECK (
        prefix ~ '[^A-Za-z0-9.-]$' AND ascii(right(prefix, 1)) < 128),
    CONSTRAINT mark_prefix_stays_inside CHECK (
        left(prefix, 1) <> '/' AND left(prefix, 8) <> '_sexton/'
        AND strpos(prefix, '//') = 0 AND ('/' || prefix || '/') !~ '/[.][.]?/'),
    CONSTRAINT mark_keys_are_1_to_1000 CHECK (
        keys IS NULL OR (jsonb_typeof(keys) = 'array' AND jsonb_array_length(keys) BETWEEN 1 AND 1000)),
    CONSTRAINT mark_bytes_are_0_to_1_pib CHECK (bytes BETWEEN 0 AND 1125899906842624),
    -- A worker reads many marks at once. mark_inserted limits each key, also to the length of an S3 key.
    CONSTRAINT mark_texts_have_at_most_1024_bytes CHECK (
        octet_length(vault) <= 1024 AND octet_length(prefix) <= 1024 AND octet_length(owner_txn) <= 1024
        AND octet_length(parent_kind) <= 1024 AND octet_length(parent_id) <= 1024),
    -- Cursors are milliseconds: a scan would return a mark with a finer instant after itself, again and again.
    CONSTRAINT mark_expires_at_a_millisecond CHECK (date_trunc('milliseconds', expires_at) = expires_at),
    CONSTRAINT mark_extra_retention_is_0_to_10_years CHECK (
        extra_retention_seconds BETWEEN 0 AND 315360000
        AND (extra_retention_seconds = 0 OR (kind <> 'prepared' AND expires_at IS NULL))),
    CONSTRAINT mark_parent_is_whole CHECK ((parent_kind IS NULL) = (parent_id IS NULL))
);
CREATE INDEX mark_claimed ON sexton.mark (instance, batch, last_file, kind, id) WHERE state = 'CLAIMED';
CREATE INDEX mark_late ON sexton.mark (instance, kind, id) WHERE state = 'CLAIMED' AND first_pass_at IS NOT NULL;
-- parent_id comes first, as id does in the key: else a list of parents is compared with each mark that has a parent.
CREATE INDEX mark_children ON sexton.mark (parent_id, parent_kind, instance) WHERE parent_id IS NOT NULL;
CREATE INDEX mark_quarantined ON sexton.mark (instance, quarantined_reason) WHERE quarantined_reason IS NOT NULL;
CREATE INDEX mark_fenced ON sexton.mark (instance) WHERE state = 'FENCED';
-- A fenced mark that a keeper retained is still due.
CREATE INDEX mark_due ON sexton.mark (instance, kind, retention_starts_at, id)
    WHERE state <> 'CLAIMED' AND quarantined_reason IS NULL;
-- sexton why finds a key with these. It reads each mark with several keys: an index of all keys would be larger than
-- the marks, and every claim would write it again. Not USING hash: many marks with the same key would take
-- quadratic time to insert.
CREATE INDEX mark_prefix ON sexton.mark (prefix) WHERE prefix IS NOT NULL;
-- A claim of a prefix looks for loads below it, in byte order. Without the last condition a planner without statistics
-- would use this index for a commit, and read all loads of the instance.
CREATE INDEX mark_prepared ON sexton.mark (instance, prefix)
    WHERE kind = 'prepared' AND state <> 'CLAIMED' AND prefix IS NOT NULL;
CREATE INDEX mark_one_key ON sexton.mark (hashtext(keys ->> 0)) WHERE jsonb_array_length(keys) = 1;
CREATE INDEX mark_more_keys ON sexton.mark (instance) WHERE jsonb_array_length(keys) > 1;

-- One row per mark whose files are confirmed gone, or that an operator discarded; ids are never used again.
CREATE TABLE sexton.mark_history (
    instance text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    parent_kind text COLLATE "C",
    parent_id text COLLATE "C",
    vault text COLLATE "C",
    prefix text COLLATE "C",
    keys jsonb,
    objects bigint NOT NULL,
    bytes bigint NOT NULL,
    marked_at timestamptz NOT NULL,
    claimed_at timestamptz NOT NULL,
    gone_at timestamptz NOT NULL,
    batch bigint NOT NULL,
    round bigint NOT NULL,
    discarded text,  -- why an operator discarded the mark; null: not discarded
    absorbed boolean NOT NULL DEFAULT false,  -- deleted with the files of its parent
    PRIMARY KEY (id, kind, instance)
);
CREATE INDEX mark_history_gone ON sexton.mark_history (instance, gone_at);
CREATE INDEX mark_history_children ON sexton.mark_history (parent_id, parent_kind, instance)
    WHERE parent_id IS NOT NULL;
CREATE INDEX mark_history_prefix ON sexton.mark_history (prefix) WHERE prefix IS NOT NULL;
CREATE INDEX mark_history_one_key ON sexton.mark_history (hashtext(keys ->> 0)) WHERE jsonb_array_length(keys) = 1;
CREATE INDEX mark_history_more_keys ON sexton.mark_history (instance) WHERE jsonb_array_length(keys) > 1;

-- Return the role that logged in, whose rights count; null for a superuser who does not own this schema. A superuser's
-- session runs code of owners: automatic ANALYZE evaluates the expressions of their indexes. It is a member of every
-- role, so that code would have every instance.
CREATE FUNCTION sexton.session_role() RETURNS name
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN (SELECT r.rolname FROM pg_roles r WHERE r.rolname = session_user
        AND (NOT r.rolsuper OR r.oid = (SELECT relowner FROM pg_class WHERE oid = 'sexton.mark'::regclass)));
END $$;

-- Return the instances that are granted to the role that logged in, or to a role of which it is a member.
CREATE FUNCTION sexton.granted_instances() RETURNS text[]
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT g.instance FROM sexton.instance_role g
        JOIN pg_roles r ON r.rolname = g.role AND r.oid = g.role_oid
        WHERE pg_has_role(sexton.session_role(), r.oid, 'MEMBER'));
END $$;

-- Raise SX004 unless the role that logged in may change marks of this instance. A role that may delete any mark is
-- Sexton's own.
CREATE FUNCTION sexton.verify_granted(instance text) RETURNS boolean
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF (has_table_privilege(sexton.session_role(), 'sexton.mark', 'DELETE')
        OR instance = ANY (sexton.granted_instances())) IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'SX004', MESSAGE = format(
            'SX004 instance %1$s is not granted to role %2$s; see: sexton instance grant', instance, session_user);
    END IF;
    RETURN true;
END $$;

-- Owners' roles see and insert marks of their instances only. These policies apply neither to the owner of the schema
-- nor to superusers; another role of Sexton's own needs policies that name it (docs/integration.md, your own
-- migrations). The instances are read once per statement, not per row. CASE keeps the order: verify_granted is called
-- only for a row that is refused, so that the error is SX004.
ALTER TABLE sexton.mark ENABLE ROW LEVEL SECURITY;
ALTER TABLE sexton.mark_history ENABLE ROW LEVEL SECURITY;
CREATE POLICY granted_marks ON sexton.mark FOR SELECT
    USING (instance = ANY ((SELECT sexton.granted_instances())::text[]));
CREATE POLICY granted_history ON sexton.mark_history FOR SELECT
    USING (instance = ANY ((SELECT sexton.granted_instances())::text[]));
CREATE POLICY granted_inserts ON sexton.mark FOR INSERT WITH CHECK (
    CASE WHEN instance = ANY ((SELECT sexton.granted_instances())::text[]) THEN true
    ELSE sexton.verify_granted(instance) END);

-- Refuse marks of unknown and deleted instances, of ids that are gone, and with long keys. One statement for all inserted
-- marks: a row trigger would cost the owner's bulk marks a look-up per row.
-- marked_at has the bare clock as default (docs/adr/0002), because a function of Sexton would be called for each row;
-- demo and test deployments add their offset here.
-- EXECUTE plans its statement at each call. Statements without parameters keep their plan for the whole session, and a
-- plan made when no mark was inserted took 49 s for 4,000 marks.
CREATE FUNCTION sexton.mark_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    culprit text;
BEGIN
    SELECT string_agg(DISTINCT f.instance, ', ') INTO culprit FROM fresh f
    WHERE NOT EXISTS (SELECT FROM sexton.instance i WHERE i.id = f.instance AND i.mode <> 'deleted');
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX004', MESSAGE = format(
            'SX004 unknown instance, or deleted: %s; register another one with: sexton instance add', culprit);
    END IF;
    SELECT CASE WHEN i.underscore_in_ids
        THEN format('the prefix of %s %s ends with _, which ids of %s may contain; end it with /', f.kind, f.id, i.id)
        ELSE format('the id of %s %s contains _, with which prefixes of %s may end; for such ids:'
            ' sexton instance add --underscore-in-ids', f.kind, f.id, i.id) END
    INTO culprit FROM fresh f JOIN sexton.instance i ON i.id = f.instance
    WHERE CASE WHEN i.underscore_in_ids THEN right(f.prefix, 1) = '_' ELSE strpos(f.id, '_') > 0 END LIMIT 1;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = format('SX006 %s', culprit);
    END IF;
    EXECUTE 'SELECT f.kind || '' '' || f.id || '' since '' || h.gone_at || '' (batch '' || h.batch || '')'''
        ' FROM fresh f JOIN sexton.mark_history h USING (instance, kind, id) LIMIT 1' INTO culprit;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX005',
            MESSAGE = format('SX005 gone: %s; ids are never used again', culprit);
    END IF;
    EXECUTE 'SELECT format(''%s %s has a key of %s bytes'', f.kind, f.id, octet_length(k.key))'
        ' FROM fresh f, jsonb_array_elements_text(f.keys) k (key) WHERE octet_length(k.key) > 1024 LIMIT 1' INTO culprit;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006',
            MESSAGE = format('SX006 %s; a key has at most 1024, as in S3', culprit);
    END IF;
    IF (SELECT offset_seconds FROM sexton.clock) > 0 THEN
        EXECUTE 'UPDATE sexton.mark m SET marked_at = m.marked_at + c.offset_seconds * interval ''1 second'''
            ' FROM fresh f, sexton.clock c WHERE m.instance = f.instance AND m.kind = f.kind AND m.id = f.id';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER mark_inserted AFTER INSERT ON sexton.mark
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION sexton.mark_inserted();

-- A mark that is claimed may already have lost files.
CREATE FUNCTION sexton.claimed_is_irrevocable() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'a claimed mark stays claimed: % % %', OLD.instance, OLD.kind, OLD.id;
END $$;
CREATE TRIGGER claimed_is_irrevocable BEFORE UPDATE ON sexton.mark FOR EACH ROW
    WHEN (OLD.state = 'CLAIMED' AND NEW.state <> 'CLAIMED') EXECUTE FUNCTION sexton.claimed_is_irrevocable();

-- Return keys and prefixes with every beginning of them that ends with a separator. A prefix mark covers a name only if
-- its prefix is one of these.
CREATE FUNCTION sexton.covering_prefixes(names text[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE covering (name) AS (
            SELECT unnest(names)
            UNION SELECT shorter FROM covering, substring(left(name, -1) FROM '^.*[^A-Za-z0-9.-]') shorter
            WHERE shorter IS NOT NULL
        ) SELECT name FROM covering);
END $$;

-- Return whether the prefix of a mark, also of one that is gone, covers one of these prefixes: hardly ever. Each load
-- asks twice, so the plan is made once in a session. The settings and the expression on instance leave it one way, the
-- indexes of prefixes, whatever the statistics say.
CREATE FUNCTION sexton.is_covered(instance text, prefixes text[]) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off AS $$
DECLARE
    covering text[] := sexton.covering_prefixes(prefixes);
BEGIN
    RETURN EXISTS (SELECT FROM sexton.mark m
            WHERE m.prefix = ANY (covering) AND m.instance || '' = is_covered.instance)
        OR EXISTS (SELECT FROM sexton.mark_history h
            WHERE h.prefix = ANY (covering) AND h.instance || '' = is_covered.instance);
END $$;

-- Raise SX001 if a claimed prefix covers one of these prefixes: a round deletes everything below it, also files that are
-- written now. A claim that is under way ends first; a later one leaves the marks alone that this transaction has locked.
CREATE FUNCTION sexton.verify_unclaimed(instance text, vault text, prefixes text[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    claimed text;
BEGIN
    WITH covering AS MATERIALIZED (
        SELECT m.kind, m.id, m.prefix, m.state FROM sexton.mark m
        WHERE m.instance = verify_unclaimed.instance AND m.prefix = ANY (sexton.covering_prefixes(prefixes))
            AND coalesce(m.vault = verify_unclaimed.vault, true)
        FOR SHARE
    ) SELECT string_agg(format('%s (%s %s)', c.prefix, c.kind, c.id), ', ') INTO claimed
    FROM covering c WHERE c.state = 'CLAIMED';
    IF claimed IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX001', MESSAGE = format(
            'SX001 collected: a round deletes everything below %s; write to another prefix', left(claimed, 2000));
    END IF;
END $$;

-- Announce files before their first upload: insert one mark of kind 'prepared' per id. parent_kind and parent_ids name
-- what the files belong to: a hold on the parent retains them too. Return the number of marks.
CREATE FUNCTION sexton.prepare(instance text, owner_txn text, ids text[], vault text, prefixes text[],
    txn_ttl interval, parent_kind text, parent_ids text[])
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    n integer;
    present timestamptz := sexton.now();
    expires timestamptz;
BEGIN
    PERFORM sexton.verify_granted(instance);
    IF cardinality(ids) IS DISTINCT FROM cardinality(prefixes) OR array_position(prefixes, NULL) IS NOT NULL
        OR (parent_kind IS NOT NULL AND cardinality(ids) IS DISTINCT FROM cardinality(parent_ids)) THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006',
            MESSAGE = 'SX006 prepare takes one prefix for each id, and one parent where any is given';
    END IF;
    BEGIN
        expires := date_trunc('milliseconds', present + txn_ttl);
    EXCEPTION WHEN datetime_field_overflow OR interval_field_overflow THEN
        expires := NULL;
    END;
    -- The instant is compared, not the interval: for a comparison of intervals a month has 30 days and a day 24 hours.
    IF (expires > present AND expires <= present + interval '8784 hours') IS NOT TRUE THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 txn_ttl must be longer than 0 and at most 366 days';
    END IF;
    IF sexton.is_covered(instance, prefixes) THEN
        PERFORM sexton.verify_unclaimed(instance, vault, prefixes);
    END IF;
    INSERT INTO sexton.mark (instance, kind, id, vault, prefix, owner_txn, expires_at, parent_kind, parent_id)
    SELECT prepare.instance, 'prepared', p.id, prepare.vault, p.prefix, prepare.owner_txn,
        expires, prepare.parent_kind, p.parent
    FROM unnest(ids, prefixes, parent_ids) AS p (id, prefix, parent);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- The same without parents.
CREATE FUNCTION sexton.prepare(instance text, owner_txn text, ids text[], vault text, prefixes text[],
    txn_ttl interval)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN sexton.prepare(instance, owner_txn, ids, vault, prefixes, txn_ttl, NULL::text, NULL::text[]);
END $$;

-- Quarantine the marks whose prefixes cover files that are committed now: their owner decides about them. Raise SX001 if
-- one was claimed since the files were announced, as they may be deleted. The update comes first: it waits for a claim
-- that is under way, and the next statement sees it.
CREATE FUNCTION sexton.quarantine_covering(instance text, ids text[], vaults text[], prefixes text[],
    prepared_at timestamptz[])
RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    i text := quarantine_covering.instance;
    covering text[] := sexton.covering_prefixes(quarantine_covering.prefixes);
    lost text;
BEGIN
    UPDATE sexton.mark m SET quarantined_reason = 'CHANGED',
        last_error = format('%s was committed below its prefix %s', f.id, m.prefix)
    FROM unnest(ids, vaults, prefixes) f (id, vault, prefix)
    WHERE m.instance = i AND m.prefix = ANY (covering) AND starts_with(f.prefix, m.prefix)
        AND coalesce(m.vault = f.vault, true) AND m.state <> 'CLAIMED'
        AND m.quarantined_reason IS DISTINCT FROM 'CHANGED';
    SELECT string_agg(l.why, '; ') INTO lost FROM (
        SELECT f.id || ' lies below ' || m.prefix || ', claimed in batch ' || m.batch AS why
        FROM unnest(ids, vaults, prefixes) f (id, vault, prefix)
        JOIN sexton.mark m ON starts_with(f.prefix, m.prefix) AND coalesce(m.vault = f.vault, true)
        WHERE m.instance = i AND m.prefix = ANY (covering) AND m.state = 'CLAIMED'
        UNION ALL
        SELECT f.id || ' lies below ' || h.prefix || ', deleted in batch ' || h.batch
        FROM unnest(ids, vaults, prefixes, prepared_at) f (id, vault, prefix, prepared_at)
        JOIN sexton.mark_history h ON starts_with(f.prefix, h.prefix) AND coalesce(h.vault = f.vault, true)
        WHERE h.instance = i AND h.prefix = ANY (covering) AND h.batch > 0 AND h.gone_at >= f.prepared_at
    ) l;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX001',
            MESSAGE = format('SX001 collected: %s; roll this commit back', left(lost, 2000));
    END IF;
END $$;

-- Delete the owner's own prepared marks; this deletion is the commit of the owner's metadata. With fewer rows than ids
-- the owner must roll back: the rest are fenced, claimed or gone. Return the number of ids.
-- force_custom_plan: a session that keeps plans from when the tables were small would read all history at each commit.
CREATE FUNCTION sexton.commit(instance text, ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
DECLARE
    wanted text[] := ARRAY(SELECT DISTINCT unnest(ids));
    removed text[];
    vaults text[];
    prefixes text[];
    prepared_at timestamptz[];
    lost text;
BEGIN
    PERFORM sexton.verify_granted(instance);
    IF wanted IS NULL OR ids IS NULL OR array_position(wanted, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 commit takes ids, none of them NULL';
    END IF;
    WITH ours AS (
        DELETE FROM sexton.mark m
        WHERE m.instance = commit.instance AND m.kind = 'prepared' AND m.id = ANY (wanted) AND m.state = 'MARKED'
        RETURNING m.id, m.vault, m.prefix, m.marked_at
    ) SELECT coalesce(array_agg(ours.id), '{}'), array_agg(ours.vault), array_agg(ours.prefix), array_agg(ours.marked_at)
    INTO removed, vaults, prefixes, prepared_at FROM ours;
    IF cardinality(removed) < cardinality(wanted) THEN
        SELECT string_agg(w.id || ' ' || CASE
                WHEN m.state = 'FENCED' THEN 'is fenced: a round is about to collect it; unless its transaction was aborted, commit again after that round'
                WHEN m.state IS NOT NULL AND m.state <> 'MARKED'
                    THEN 'claimed in batch ' || m.batch || ' at ' || m.claimed_at || ' (its transaction expired at ' || m.expires_at || ')'
                WHEN h.id IS NOT NULL THEN 'gone in batch ' || h.batch || ' at ' || h.gone_at
                ELSE 'was never prepared, or is committed already' END, '; ')
        INTO lost
        FROM (SELECT unnest(wanted) AS id EXCEPT SELECT unnest(removed)) w
        LEFT JOIN sexton.mark m ON m.instance = commit.instance AND m.kind = 'prepared' AND m.id = w.id
        LEFT JOIN sexton.mark_history h ON h.instance = commit.instance AND h.kind = 'prepared' AND h.id = w.id;
        RAISE EXCEPTION USING ERRCODE = 'SX001',
            MESSAGE = format('SX001 collected: %s; roll this commit back', left(lost, 2000));
    END IF;
    IF sexton.is_covered(instance, prefixes) THEN
        PERFORM sexton.quarantine_covering(instance, removed, vaults, prefixes, prepared_at);
    END IF;
    -- A repair may have marked files of these rowsets as orphans: take those marks back. A file that is already claimed
    -- or gone is lost.
    DELETE FROM sexton.mark m
    WHERE m.instance = commit.instance AND m.kind = 'orphan' AND m.parent_kind = 'rowset' AND m.parent_id = ANY (wanted)
        AND m.state = 'MARKED';
    SELECT string_agg(o.parent_id || ' lost a file as orphan ' || o.id, '; ') INTO lost FROM (
        SELECT m.parent_id, m.id FROM sexton.mark m
        WHERE m.instance = commit.instance AND m.kind = 'orphan' AND m.parent_kind = 'rowset' AND m.parent_id = ANY (wanted)
        UNION ALL
        SELECT h.parent_id, h.id FROM sexton.mark_history h
        WHERE h.instance = commit.instance AND h.kind = 'orphan' AND h.parent_kind = 'rowset' AND h.parent_id = ANY (wanted)
    ) o;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX001',
            MESSAGE = format('SX001 collected: %s; roll this commit back', left(lost, 2000));
    END IF;
    RETURN cardinality(removed);
END $$;

-- Take marks back, all or none. Undrop decides, so it locks the guard. It must come before any other write of its
-- transaction (lock order), except an earlier undrop of the same instance, which holds the guard already.
-- Descendants that became garbage by themselves (compacted, prepared), or were gone before their parent was dropped, do
-- not prevent the undrop of the parent.
-- force_custom_plan makes a plan for each call: a plan made for other numbers of ids took 100 s instead of 0.3 s.
CREATE FUNCTION sexton.undrop(instance text, kind text, ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    i text := undrop.instance;
    k text := undrop.kind;
    wanted text[] := ARRAY(SELECT DISTINCT unnest(undrop.ids));
    n integer;
    refused text;
BEGIN
    PERFORM sexton.verify_granted(i);
    IF undrop.ids IS NULL OR array_position(wanted, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 undrop takes ids, none of them NULL';
    END IF;
    IF k = 'prepared' THEN
        RAISE EXCEPTION USING ERRCODE = 'SX003', MESSAGE = 'SX003 refused: a prepared mark is committed, never undropped';
    END IF;
    IF pg_current_xact_id_if_assigned() IS NOT NULL
        AND current_setting('sexton.guarded', true) IS DISTINCT FROM i || ' ' || pg_current_xact_id_if_assigned()
    THEN
        RAISE EXCEPTION USING ERRCODE = 'SX002',
            MESSAGE = 'SX002 undrop must be the first statement that writes in its transaction';
    END IF;
    UPDATE sexton.instance_guard g SET seq = g.seq + 1 WHERE g.instance = i;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = 'SX004', MESSAGE = format('SX004 unknown instance: %s', i);
    END IF;
    PERFORM set_config('sexton.guarded', i || ' ' || pg_current_xact_id(), true);
    WITH RECURSIVE up (root, kind, id, depth) AS (
        SELECT m.id, m.parent_kind, m.parent_id, 1 FROM sexton.mark m
        WHERE m.instance = i AND m.kind = k AND m.id = ANY (wanted) AND m.parent_id IS NOT NULL
        UNION
        SELECT up.root, m.parent_kind, m.parent_id, up.depth + 1 FROM up
        JOIN sexton.mark m ON m.instance = i AND m.kind = up.kind AND m.id = up.id
        WHERE m.parent_id IS NOT NULL AND up.depth < 16
    ), down (root, kind, id, depth) AS (
        SELECT w.id COLLATE "C", k COLLATE "C", w.id COLLATE "C", 0 FROM unnest(wanted) AS w (id)
        UNION
        SELECT down.root, m.kind, m.id, down.depth + 1 FROM down
        JOIN sexton.mark m ON m.instance = i AND m.parent_kind = down.kind AND m.parent_id = down.id
        WHERE down.depth < 16
    ), reasons (why) AS (
        SELECT w.id || ' ' || CASE
            WHEN m.state = 'CLAIMED' THEN 'is claimed in batch ' || m.batch
            WHEN m.state = 'FENCED' THEN 'is fenced'
            WHEN h.id IS NOT NULL THEN 'is gone since ' || h.gone_at
            ELSE 'is not marked' END
        FROM unnest(wanted) AS w (id)
        LEFT JOIN sexton.mark m ON m.instance = i AND m.kind = k AND m.id = w.id
        LEFT JOIN sexton.mark_history h ON h.instance = i AND h.kind = k AND h.id = w.id
        WHERE m.id IS NULL OR m.state <> 'MARKED'
        UNION ALL
        SELECT up.root || ': its ancestor ' || up.kind || ' ' || up.id || ' is marked or gone' FROM up
        WHERE NOT (up.kind = k AND up.id = ANY (wanted))  -- an ancestor may be undropped in the same call
          AND (EXISTS (SELECT FROM sexton.mark m WHERE m.instance = i AND m.kind = up.kind AND m.id = up.id)
            OR EXISTS (SELECT FROM sexton.mark_history h WHERE h.instance = i AND h.kind = up.kind AND h.id = up.id))
        UNION ALL
        SELECT down.root || ': its descendant ' || down.kind || ' ' || down.id || ' is claimed' FROM down
        JOIN sexton.mark m ON m.instance = i AND m.kind = down.kind AND m.id = down.id
        WHERE down.depth > 0 AND m.state = 'CLAIMED' AND m.kind NOT IN ('compacted', 'prepared')
        UNION ALL
        SELECT down.root || ': its descendant ' || h.kind || ' ' || h.id || ' is gone'
        FROM down JOIN sexton.mark_history h
            ON h.instance = i AND h.parent_kind = down.kind AND h.parent_id = down.id
            AND h.kind NOT IN ('compacted', 'prepared')
        JOIN sexton.mark p ON p.instance = i AND p.kind = k AND p.id = down.root AND h.claimed_at >= p.marked_at
    )
    SELECT string_agg(why, '; ') INTO refused FROM reasons;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX003', MESSAGE = format('SX003 refused: %s', left(refused, 2000));
    END IF;
    DELETE FROM sexton.mark m WHERE m.instance = i AND m.kind = k AND m.id = ANY (wanted) AND m.state = 'MARKED';
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n <> cardinality(wanted) THEN  -- another transaction has removed one meanwhile
        RAISE EXCEPTION USING ERRCODE = 'SX003', MESSAGE = 'SX003 refused: a mark was removed at the same time; read again';
    END IF;
    RETURN n;
END $$;

-- Take back the marks of files that the owner registers again: of any kind but prepared, with one of these ids, and
-- orphans of a record with one of them. Ids without a mark are no error. It may come anywhere in a transaction: it only
-- shares the guard, so that a claim waits for this transaction, or is visible to it. Above READ COMMITTED it fails
-- (40001) if a claim came after the snapshot, or the snapshot is older than 5 minutes: a mark that it does not show is
-- then younger than half of the shortest retention, and no round claims it before this transaction has ended. Return
-- the number of marks.
CREATE FUNCTION sexton.reference(instance text, ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan AS $$
#variable_conflict use_column
DECLARE
    i text := reference.instance;
    wanted text[] := ARRAY(SELECT DISTINCT unnest(reference.ids));
    n integer;
    lost text;
BEGIN
    PERFORM sexton.verify_granted(i);
    IF reference.ids IS NULL OR array_position(wanted, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 reference takes ids, none of them NULL';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed'
        AND clock_timestamp() > transaction_timestamp() + interval '5 minutes' THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE =
            'this transaction began more than 5 minutes ago, and a concurrent one may have marked its files; repeat it';
    END IF;
    PERFORM FROM sexton.instance_guard g WHERE g.instance = i FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '40001', MESSAGE =
            'this transaction began before its instance was registered by a concurrent one; repeat it';
    END IF;
    WITH referenced AS (
        DELETE FROM sexton.mark m
        WHERE m.instance = i AND m.kind <> 'prepared' AND m.state = 'MARKED' AND (m.id = ANY (wanted)
            OR (m.kind = 'orphan' AND m.parent_kind = 'rowset' AND m.parent_id = ANY (wanted)))
        RETURNING 1
    ) SELECT count(*) INTO n FROM referenced;
    SELECT string_agg(kind || ' ' || id, '; ') INTO lost FROM (
        SELECT m.kind, m.id FROM sexton.mark m
        WHERE m.instance = i AND m.kind <> 'prepared' AND (m.id = ANY (wanted)
            OR (m.kind = 'orphan' AND m.parent_kind = 'rowset' AND m.parent_id = ANY (wanted)))
        UNION ALL
        SELECT h.kind, h.id FROM sexton.mark_history h
        WHERE h.instance = i AND h.kind <> 'prepared' AND h.discarded IS NULL AND (h.id = ANY (wanted)
            OR (h.kind = 'orphan' AND h.parent_kind = 'rowset' AND h.parent_id = ANY (wanted)))
    ) l;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX001', MESSAGE = format(
            'SX001 collected: the files of %s are deleted, or a round is deleting them; roll this commit back',
            left(lost, 2000));
    END IF;
    RETURN n;
END $$;

-- Rounds: leases, plans, batches, and the pace of deletes -------------------------------------------------------------

-- One row per instance and job: which worker does this job now.
CREATE TABLE sexton.lease (
    instance text NOT NULL,
    job text NOT NULL,
    state text NOT NULL DEFAULT 'IDLE' CHECK (state IN ('IDLE', 'BUSY')),
    owner text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,  -- increased each time the lease is acquired
    acquired_at timestamptz,
    expires_at timestamptz,
    PRIMARY KEY (instance, job)
);

-- One row per plan: what a round may delete, and who approved what exceeds a limit.
CREATE TABLE sexton.plan (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL,
    created_at timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'PLANNED' CHECK (state IN ('PLANNED', 'APPLYING', 'APPLIED')),
    planned_by text NOT NULL,
    policy_version text NOT NULL,
    body jsonb NOT NULL,
    awaits text,  -- why an operator must apply the plan before it expires; of a rejected plan: who rejected it, and why
    expires_at timestamptz,
    approved_by text,
    approved_at timestamptz,
    rejected boolean NOT NULL DEFAULT false
);
CREATE INDEX plan_of_instance ON sexton.plan (instance, id);
CREATE INDEX plan_open ON sexton.plan (instance, id) WHERE awaits IS NOT NULL;
CREATE INDEX plan_answered ON sexton.plan (instance, approved_at) WHERE approved_at IS NOT NULL;

-- One row per round: one run over one instance.
CREATE TABLE sexton.round (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL,
    run_id text NOT NULL UNIQUE,
    plan bigint REFERENCES sexton.plan (id),
    state text NOT NULL DEFAULT 'RUNNING' CHECK (state IN ('RUNNING', 'SUCCEEDED', 'FAILED')),
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    report jsonb,
    waiting text,  -- why a running round holds no lease: paused or backing off
    waiting_since timestamptz
);
CREATE INDEX round_of_instance ON sexton.round (instance, id);
CREATE INDEX round_of_plan ON sexton.round (plan) WHERE plan IS NOT NULL;
CREATE INDEX round_waiting ON sexton.round (instance) WHERE waiting IS NOT NULL;
CREATE INDEX round_running ON sexton.round (id, instance) WHERE state = 'RUNNING';

-- One row per range: the marks of one kind that one activity claims and deletes.
CREATE TABLE sexton.batch (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL,
    round bigint NOT NULL REFERENCES sexton.round (id),
    kind text NOT NULL,
    number integer NOT NULL,
    first text NOT NULL,
    last text NOT NULL,
    lease_epoch bigint NOT NULL,
    attempt integer NOT NULL,
    claimed integer NOT NULL DEFAULT 0,
    state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'DONE')),
    receipt jsonb,
    -- A run that was reset starts its attempts at 1 again: of two workers with one epoch and attempt, the last to open
    -- writes.
    open_count integer NOT NULL DEFAULT 0,
    limited_objects bigint NOT NULL DEFAULT 0,  -- objects claimed that count against the limits of 24 hours
    claimed_at timestamptz,  -- when the last of limited_objects were claimed
    -- when a newer attempt took it over; a request of the older one may still be on its way
    taken_over_at timestamptz,
    UNIQUE (round, kind, number)
);
CREATE INDEX batch_open ON sexton.batch (instance) WHERE state = 'OPEN';
CREATE INDEX batch_taken_over ON sexton.batch (instance, taken_over_at) WHERE taken_over_at IS NOT NULL;
CREATE INDEX batch_limited ON sexton.batch (instance, claimed_at) WHERE limited_objects > 0;

-- One row per list of up to 5,000 files that a batch deletes, with the outcome of each once it was tried. Both columns of
-- bytes are compressed JSON (sexton/marks/file_list.py): `files` is never changed, `results` is stored with every page.
CREATE TABLE sexton.file_list (
    batch bigint NOT NULL,
    last bigint NOT NULL,  -- number of its last file in the batch
    first bigint NOT NULL,
    instance text COLLATE "C" NOT NULL,
    first_key text COLLATE "C" NOT NULL,
    last_key text COLLATE "C" NOT NULL,
    files bytea NOT NULL,
    results bytea NOT NULL,
    PRIMARY KEY (batch, last)
) WITH (fillfactor = 45);  -- a row is updated with each of its pages: in the same page, no index is touched
ALTER TABLE sexton.file_list ALTER COLUMN files SET STORAGE EXTERNAL;  -- compressed already, and kept out of the row
CREATE INDEX file_list_of_instance ON sexton.file_list (instance, batch, last);

-- One row per round, kind and vault: counts of the deletion so far.
CREATE TABLE sexton.tally (
    round bigint NOT NULL REFERENCES sexton.round (id),
    kind text NOT NULL,
    vault text NOT NULL,
    listed bigint NOT NULL DEFAULT 0,  -- objects found, page by page, also those of marks that are kept then
    claimed bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    absent bigint NOT NULL DEFAULT 0,
    hidden bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    bytes_freed bigint NOT NULL DEFAULT 0,
    bytes_estimated bigint NOT NULL DEFAULT 0,
    size_unknown bigint NOT NULL DEFAULT 0,  -- objects deleted whose size neither the store nor the owner states
    bytes_hidden bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (round, kind, vault)
);

-- One row per counter that outlives its round, by instance, name and label.
CREATE TABLE sexton.counter (
    instance text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    value bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (instance, name, label)
);

-- One row per place (a partition of a store): the rate at which it accepts deletes, as all workers together learned it.
CREATE TABLE sexton.pace (
    place text COLLATE "C" PRIMARY KEY,
    keys_per_second bigint NOT NULL,
    ceiling bigint NOT NULL DEFAULT 0,  -- the rate at which the store last refused; 0: it never has
    throttled_at timestamptz,
    updated_at timestamptz NOT NULL
);

-- One row per place and worker: when the worker last reported, and what it has counted there.
CREATE TABLE sexton.pace_share (
    place text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    seen_at timestamptz NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    throttled bigint NOT NULL DEFAULT 0,
    keys bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (place, worker)
);

-- One row per vault with an operator's upper bound for the rate of deletes.
CREATE TABLE sexton.pace_cap (
    instance text COLLATE "C" NOT NULL,
    vault text COLLATE "C" NOT NULL,
    keys_per_second bigint NOT NULL CHECK (keys_per_second > 0),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since timestamptz NOT NULL,
    PRIMARY KEY (instance, vault)
);

-- One row per Spark worker: how many activities it takes at once, and how many it runs.
CREATE TABLE sexton.spark_worker (
    worker text COLLATE "C" PRIMARY KEY,
    seen_at timestamptz NOT NULL,
    slots bigint NOT NULL,
    busy bigint NOT NULL
);

-- One row per worker: its role and build, since when it runs, when it last reported, and the settings in its file.
CREATE TABLE sexton.worker_presence (
    worker text COLLATE "C" PRIMARY KEY,
    role text NOT NULL,
    build text NOT NULL DEFAULT '',
    started_at timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,
    metrics text NOT NULL DEFAULT '',  -- where it answers GET /metrics; empty: nowhere
    settings jsonb NOT NULL
);

-- Operators: controls and holds ---------------------------------------------------------------------------------------

-- One row per control that an operator set: a stop, a list entry or a window.
CREATE TABLE sexton.control (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('stop', 'blacklist', 'whitelist', 'vault_whitelist', 'window')),
    name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since timestamptz NOT NULL DEFAULT sexton.now(),
    -- the order that set it first; reason and set_by are those of the last one
    first_reason text NOT NULL DEFAULT '',
    first_set_by text NOT NULL DEFAULT '',
    set_at timestamptz,  -- when it was last set; since: when it was first set
    PRIMARY KEY (kind, name)
);

-- One row per setting that an operator changed for all workers: of all instances (''), or of one.
CREATE TABLE sexton.setting (
    instance text COLLATE "C" NOT NULL DEFAULT '',
    key text COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 100),
    value text NOT NULL CHECK (length(value) BETWEEN 1 AND 100),
    set_at timestamptz NOT NULL DEFAULT sexton.now(),
    set_by text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    PRIMARY KEY (instance, key)
);

-- One row per hold: an operator's order that blocks deletion of an instance, a mark or a prefix.
CREATE TABLE sexton.hold (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance (id),
    scope text NOT NULL CHECK (scope IN ('instance', 'mark', 'prefix')),
    mark_kind text COLLATE "C",
    mark_id text COLLATE "C",
    vault text COLLATE "C",
    prefix text COLLATE "C",
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    placed_by text NOT NULL,
    placed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    released_at timestamptz,
    CONSTRAINT hold_names_what_its_scope_needs CHECK (
        (scope = 'mark') = (mark_kind IS NOT NULL) AND (scope = 'mark') = (mark_id IS NOT NULL)
        AND (scope = 'prefix') = (vault IS NOT NULL) AND (scope = 'prefix') = (prefix IS NOT NULL))
);
CREATE INDEX hold_of_instance ON sexton.hold (instance, expires_at) WHERE released_at IS NULL;

-- Protection of files that a sync job copies --------------------------------------------------------------------------

-- One row per protection: files that stay while a sync job copies them.
CREATE TABLE sexton.protection (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    job text COLLATE "C" NOT NULL CHECK (length(job) BETWEEN 1 AND 200),
    owner text NOT NULL,
    description text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('OPEN', 'ACTIVE', 'SOFT')),
    valid_ts bigint,
    registered_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    finished_at timestamptz,
    digest text NOT NULL,
    -- increased with each change of the coverage, so that a claim that read it before sees that it must read it again
    changes bigint NOT NULL DEFAULT 0,
    sizes jsonb NOT NULL DEFAULT '[]',  -- lengths of its prefixes, in characters
    filter bytea,  -- a Bloom filter of keys
    objects bigint NOT NULL DEFAULT 0,  -- objects and prefixes, or the keys of the filter; counted in its job's quota
    bytes bigint NOT NULL DEFAULT 0,  -- of the objects that were looked up
    sealed jsonb,  -- the result of its registration
    UNIQUE (instance, job)
);

-- One row per key or prefix that a protection covers. It has no foreign key: an ended protection is deleted at once,
-- its items a few at a time; without the protection they cover nothing.
CREATE TABLE sexton.protection_item (
    instance text COLLATE "C" NOT NULL,
    vault text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    prefix boolean NOT NULL,
    protection bigint NOT NULL,
    PRIMARY KEY (instance, vault, key, prefix, protection)
);
CREATE INDEX protection_item_of ON sexton.protection_item (protection);

-- One row per registered chunk of a protection. The same chunk again changes nothing; another chunk with its number is
-- refused.
CREATE TABLE sexton.protection_chunk (
    protection bigint NOT NULL REFERENCES sexton.protection ON DELETE CASCADE,
    number bigint NOT NULL,
    digest text NOT NULL,
    result jsonb,  -- the result that was returned for this chunk
    PRIMARY KEY (protection, number)
);

-- Check: do records and objects agree? --------------------------------------------------------------------------------

-- One row per run of the check, which compares an instance's records with its objects.
CREATE TABLE sexton.check_run (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    run text COLLATE "C" NOT NULL UNIQUE,
    state text NOT NULL CHECK (state IN ('RUNNING', 'WHOLE', 'PARTIAL')),
    cutoff timestamptz NOT NULL,
    ended_at timestamptz,
    evidence jsonb,  -- what the run saw; set at its end
    missing_inputs jsonb,  -- why the run proves nothing; set at its end
    asked_by text NOT NULL DEFAULT '',
    progress jsonb,  -- parts of a long run that are done and need not be repeated
    open_counts jsonb  -- finding type -> open findings at its end, and confirmed ones
);
CREATE INDEX check_run_of ON sexton.check_run (instance, id);
CREATE INDEX check_run_cutoff ON sexton.check_run (instance, cutoff);
CREATE INDEX check_run_running ON sexton.check_run (instance) WHERE state = 'RUNNING';

-- One row per difference between records and objects that a check found.
CREATE TABLE sexton.finding (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL CHECK (
        type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND', 'UPLOAD', 'RECORD', 'FRONT_END')),
    vault text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    expected bigint,
    size bigint,
    etag text NOT NULL DEFAULT '',
    written text NOT NULL DEFAULT '',  -- when the object was last written, by its store's clock
    record text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'ACCEPTED', 'REPAIRED', 'GONE')),
    first_seen timestamptz NOT NULL,
    seen_in bigint NOT NULL,  -- the last run that saw it
    proven_at timestamptz,  -- the cutoff of the first run of an unbroken row of whole runs that saw it
    confirmed_at timestamptz,
    accepted_by text NOT NULL DEFAULT '',
    detail text NOT NULL DEFAULT '',
    proven_in bigint,  -- the last whole run that saw it
    mark text COLLATE "C" NOT NULL DEFAULT '',  -- id of the mark that a repair made of it
    UNIQUE (instance, type, vault, key)
);
CREATE INDEX finding_in ON sexton.finding (instance, seen_in);
CREATE INDEX finding_mark ON sexton.finding (instance, mark) WHERE mark <> '';

-- WAL: purges of Kafka topics -----------------------------------------------------------------------------------------

-- One row per Kafka topic that is purged.
CREATE TABLE sexton.wal_topic (
    name text COLLATE "C" PRIMARY KEY,
    instance text NOT NULL CHECK (instance <> ''),  -- whose topic it is: scopes of tokens are compared with it
    kafka_id text NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    mode text NOT NULL DEFAULT 'delete' CHECK (mode IN ('delete', 'logical')),
    floor bigint CHECK (floor > 0),  -- the first entry that Sexton never deleted; only ever raised
    log_start bigint,  -- as last observed
    log_end bigint,  -- as last observed
    quarantined text NOT NULL DEFAULT '',
    generation bigint,
    map_digest text NOT NULL DEFAULT '',
    mapped_at timestamptz,
    emptied_at timestamptz,
    entry_bytes double precision NOT NULL DEFAULT 0,
    entry_bytes_at timestamptz,
    checked_at timestamptz,  -- when a purge last decided about it
    ok_at timestamptz,  -- when it was last enabled, or purged without a fault
    fault text NOT NULL DEFAULT '',  -- what the log refused in the last purge
    freed bigint NOT NULL DEFAULT 0,  -- entries, over its whole life
    blocked jsonb NOT NULL DEFAULT '{}',
    seq bigint NOT NULL DEFAULT 0
);

-- One row per region of a topic: the first entry that it needs.
CREATE TABLE sexton.wal_region (
    topic text COLLATE "C" NOT NULL REFERENCES sexton.wal_topic ON DELETE CASCADE,
    region text COLLATE "C" NOT NULL,
    epoch bigint NOT NULL DEFAULT 0,
    first bigint NOT NULL DEFAULT 0,
    keep_from bigint CHECK (keep_from >= 0),  -- the first entry that the region needs; null: not reported yet
    flushed jsonb NOT NULL DEFAULT '[]',  -- per stream, the first entry after the highest flushed one that was reported
    pending_keep_from bigint,  -- reported above the known end of the log, not applied yet
    pending_flushed jsonb,
    source text NOT NULL CHECK (source IN ('map', 'flushed', 'idle', 'opened', 'reset')),
    -- GONE: it needs nothing, and may come back with an old manifest
    state text NOT NULL CHECK (state IN ('MAPPED', 'MOVED', 'DROPPED', 'GONE')),
    reported_at timestamptz,
    mapped_node text NOT NULL DEFAULT '',  -- the only one that may report or open the region; empty: the map names none
    node text NOT NULL DEFAULT '',  -- that has opened or reported it in this epoch; without a mapped one, no other may
    releases_at timestamptz,
    until bigint,
    PRIMARY KEY (topic, region)
);
CREATE INDEX wal_region_retaining ON sexton.wal_region (topic, region) WHERE state <> 'GONE';

-- One row per region that is being opened and reads the topic from start on.
CREATE TABLE sexton.wal_pin (
    id text COLLATE "C" PRIMARY KEY,
    topic text COLLATE "C" NOT NULL REFERENCES sexton.wal_topic ON DELETE CASCADE,
    region text COLLATE "C" NOT NULL,
    start bigint NOT NULL,
    node text NOT NULL,
    kafka_id text NOT NULL,  -- of the topic as it was known at the opening
    log_end bigint NOT NULL,  -- of the topic as it was known at the opening
    opened_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX wal_pin_of ON sexton.wal_pin (topic);

-- One row per floor of a topic: which regions blocked more, and when Kafka followed.
CREATE TABLE sexton.wal_purge (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    topic text COLLATE "C" NOT NULL,
    kafka_id text NOT NULL,
    floor bigint NOT NULL,
    at timestamptz NOT NULL,
    log_end bigint NOT NULL,
    holders jsonb NOT NULL,  -- which region needed which entry, the lowest first
    done_at timestamptz,  -- when Kafka was seen to have followed
    log_start bigint,  -- when the floor was raised; from done_at on, as Kafka had it then
    freed bigint,  -- entries between the two log starts
    UNIQUE (topic, kafka_id, floor)
);
CREATE INDEX wal_purge_open ON sexton.wal_purge (topic, floor) WHERE done_at IS NULL;

-- One row per node that reports, with the URL at which Sexton asks it to flush.
CREATE TABLE sexton.wal_node (
    instance text NOT NULL,  -- nodes of two instances may have the same name
    name text COLLATE "C" NOT NULL,
    url text NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (instance, name)
);

-- One row per topic of the embedded log, which replaces Kafka on one machine.
CREATE TABLE sexton.wal_log (
    name text COLLATE "C" PRIMARY KEY,
    id text NOT NULL,
    partitions bigint NOT NULL DEFAULT 1,
    compacted boolean NOT NULL DEFAULT false,
    log_start bigint NOT NULL DEFAULT 0,
    log_end bigint NOT NULL DEFAULT 0
);

-- One row per entry of the embedded log.
CREATE TABLE sexton.wal_entry (
    topic text COLLATE "C" NOT NULL REFERENCES sexton.wal_log ON DELETE CASCADE,
    id bigint NOT NULL,
    payload bytea NOT NULL,
    PRIMARY KEY (topic, id)
);

-- Replication: the journal, binlogs, backends and replicas ------------------------------------------------------------

-- One row per instance: the last sequence number of its journal. Each writer locks this row, so the instance has one
-- sequence.
CREATE TABLE sexton.journal_head (
    instance text COLLATE "C" PRIMARY KEY REFERENCES sexton.instance,
    seq bigint NOT NULL DEFAULT 0,
    trimmed bigint NOT NULL DEFAULT 0
);

-- One row per journal entry that followers replay.
CREATE TABLE sexton.journal (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    seq bigint NOT NULL,
    op bigint NOT NULL,
    body jsonb NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (instance, seq)
);

-- One row per follower of a journal.
CREATE TABLE sexton.journal_follower (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    name text COLLATE "C" NOT NULL,
    applied bigint NOT NULL,  -- the last entry that it has
    seen_at timestamptz NOT NULL,
    lost_at timestamptz,  -- from then on no entry is retained for it; it must start over
    PRIMARY KEY (instance, name)
);

-- One row per instance: when its binlogs were last checked, by the database's clock, and counts of cuts and refusals.
CREATE TABLE sexton.binlog_round (
    instance text COLLATE "C" PRIMARY KEY REFERENCES sexton.instance,
    checked_at timestamptz,
    ok_at timestamptz,
    steady_since timestamptz,  -- since when runs follow one another: silence before it makes no consumer LOST
    refused text NOT NULL DEFAULT '',  -- why the last run cut nothing
    cuts bigint NOT NULL DEFAULT 0,
    refusals bigint NOT NULL DEFAULT 0
);

-- One row per binlog: of a database (tbl is empty), and of each of its tables.
CREATE TABLE sexton.binlog_log (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL DEFAULT '',
    enabled boolean NOT NULL DEFAULT false,
    ttl_seconds bigint CHECK (ttl_seconds >= 0),  -- null: records never expire
    max_bytes bigint CHECK (max_bytes >= 0),
    max_history_nums bigint CHECK (max_history_nums >= 0),
    last_seq bigint NOT NULL DEFAULT 0,
    last_ts bigint NOT NULL DEFAULT 0,  -- ms since 1970, the latest of any record so far
    records bigint NOT NULL DEFAULT 0,  -- of all that were ever stored
    bytes bigint NOT NULL DEFAULT 0,  -- of all that were ever stored
    gone_records bigint NOT NULL DEFAULT 0,
    gone_bytes bigint NOT NULL DEFAULT 0,
    watermark bigint NOT NULL DEFAULT 0,  -- all records up to here are deleted
    -- no record up to here is in this log, though some may be stored for other logs
    starts_after bigint NOT NULL DEFAULT 0,
    skipped bigint NOT NULL DEFAULT 0,  -- the last record that was not stored, because no log retained it
    cut_at timestamptz,
    held jsonb NOT NULL DEFAULT '{}',
    held_since timestamptz,
    awaiting_seq bigint,  -- up to where a cut waits for an operator's approval
    awaiting_since timestamptz,
    approved bigint NOT NULL DEFAULT 0,  -- up to where an operator has approved the cut
    dropped_at timestamptz,
    PRIMARY KEY (instance, db, tbl)
);

-- One row per binlog record.
CREATE TABLE sexton.binlog (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    ts bigint NOT NULL,  -- no earlier record has a later one, and it is not later than the moment of its arrival
    sent_ts bigint NOT NULL,  -- the timestamp of the record as its owner sent it
    type text NOT NULL,
    tables jsonb NOT NULL,
    data text NOT NULL,
    bytes bigint NOT NULL,
    ordinal bigint NOT NULL,  -- number of the record in the log of its database
    bytes_before bigint NOT NULL,  -- of all records before it, ever
    PRIMARY KEY (instance, db, seq)
);

-- One row per record in the log of one table; tbl is empty for a record that names no table.
CREATE TABLE sexton.binlog_table_record (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    ordinal bigint NOT NULL,  -- ordinal of the record in this log
    bytes_before bigint NOT NULL,  -- of all records before it in this log, ever
    PRIMARY KEY (instance, db, tbl, seq)
);
CREATE INDEX binlog_table_record_by_seq ON sexton.binlog_table_record (instance, db, seq);

-- One row per version of a partition that an UPSERT record made.
CREATE TABLE sexton.binlog_partition_version (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    part text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (instance, db, tbl, seq, part)
);

-- One row per partition: up to which version its binlogs may be deleted, over all cuts so far.
CREATE TABLE sexton.binlog_partition_cut (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    propagated boolean NOT NULL DEFAULT false,  -- its replicas know this version
    PRIMARY KEY (instance, db, tbl, part)
);
CREATE INDEX binlog_partition_cut_new ON sexton.binlog_partition_cut (instance) WHERE NOT propagated;

-- One row per consumer of a binlog.
CREATE TABLE sexton.binlog_consumer (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    name text COLLATE "C" NOT NULL,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL DEFAULT '',
    acked bigint NOT NULL,  -- it has all records up to here
    since timestamptz NOT NULL,
    seen_at timestamptz NOT NULL,  -- when it last acknowledged
    lost_at timestamptz,  -- from then on it blocks no deletion
    PRIMARY KEY (instance, name, db, tbl)
);
CREATE INDEX binlog_consumer_of ON sexton.binlog_consumer (instance, db, tbl);

-- One row per backend (a storage node), with its newest report.
CREATE TABLE sexton.backend (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    name text COLLATE "C" NOT NULL,
    boot bigint NOT NULL DEFAULT -1,  -- with sequence: of the newest report
    sequence bigint NOT NULL DEFAULT -1,
    reported_at timestamptz,
    pulled_at timestamptz,
    queue_at timestamptz,  -- when a worker beside it last pulled orders
    PRIMARY KEY (instance, name)
);

-- One row per tablet's copy on a backend.
CREATE TABLE sexton.replica (
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    uid text COLLATE "C" NOT NULL,
    backend text COLLATE "C" NOT NULL,
    tablet text COLLATE "C" NOT NULL,
    db text COLLATE "C" NOT NULL,
    tbl text COLLATE "C" NOT NULL,
    part text COLLATE "C" NOT NULL,
    version bigint NOT NULL DEFAULT -1,  -- it has all versions up to here without a gap
    failed bigint NOT NULL DEFAULT -1,  -- the last failed version (LFV); -1: none
    succeeded bigint NOT NULL DEFAULT -1,  -- the last succeeded version (LSV); -1: none
    needs bigint NOT NULL DEFAULT 0,  -- the first version that it lacks
    highest bigint NOT NULL DEFAULT -1,
    bad_since timestamptz,  -- null: nothing is wrong
    gap_since timestamptz,  -- null: nothing is wrong
    crossing boolean NOT NULL DEFAULT false,
    boot bigint NOT NULL DEFAULT -1,
    sequence bigint NOT NULL DEFAULT -1,
    fresh_until timestamptz NOT NULL,  -- until when its last report counts
    row_count bigint NOT NULL DEFAULT 0,
    bytes bigint NOT NULL DEFAULT 0,
    -- why it does not count as a replica until it has a full copy; empty: it counts
    full_copy text NOT NULL DEFAULT '',
    full_copy_at timestamptz,
    full_copy_until bigint NOT NULL DEFAULT -1,  -- it counts again when it has this version
    gone bigint NOT NULL DEFAULT -1,  -- versions of the tablet up to here may be deleted, on any backend
    desired bigint NOT NULL DEFAULT -1,  -- up to where its binlogs should be deleted
    granted bigint NOT NULL DEFAULT -1,  -- up to where its binlogs may be deleted
    acked bigint NOT NULL DEFAULT -1,  -- up to where its binlogs are deleted
    problem text NOT NULL DEFAULT '',
    dropped boolean NOT NULL DEFAULT false,  -- its table was dropped, so no replica needs its versions
    PRIMARY KEY (instance, uid, backend)
);
CREATE INDEX replica_tablet ON sexton.replica (instance, tablet);
CREATE INDEX replica_part ON sexton.replica (instance, db, tbl, part);
CREATE INDEX replica_due ON sexton.replica (instance, backend, uid) WHERE desired > acked;
CREATE INDEX replica_stale ON sexton.replica (instance, fresh_until) WHERE full_copy = '' AND NOT dropped;
CREATE INDEX replica_unwell ON sexton.replica (instance) WHERE bad_since IS NOT NULL OR gap_since IS NOT NULL;
CREATE INDEX replica_aside ON sexton.replica (instance) WHERE full_copy <> '' OR problem <> '' OR crossing;

-- Access: tokens, users and the call log ------------------------------------------------------------------------------

-- One row per API token; only the digest of its secret is stored.
CREATE TABLE sexton.token (
    id text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[0-9a-f]{12}$'),
    scope text NOT NULL,
    digest text NOT NULL CHECK (length(digest) = 64),  -- of the secret, in hex; the secret itself is stored nowhere
    note text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    revoked_by text NOT NULL DEFAULT '',
    last_used_at timestamptz,  -- to about a minute
    of_user text COLLATE "C"  -- the user whose password it was given for; null: made at the command line
);
CREATE INDEX token_of_user ON sexton.token (of_user) WHERE of_user IS NOT NULL;
CREATE INDEX token_over ON sexton.token (expires_at) WHERE of_user IS NOT NULL;

-- One row per user who logs in with a password.
CREATE TABLE sexton.api_user (
    name text COLLATE "C" PRIMARY KEY,
    hash text NOT NULL,  -- of the password, by argon2id; empty: the user was removed
    scope text NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    removed_at timestamptz,
    removed_by text NOT NULL DEFAULT ''
);

-- One row per request of the API that had an Idempotency-Key, for a day.
CREATE TABLE sexton.answer (
    who text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    request text NOT NULL CHECK (length(request) = 64),  -- halves of SHA-256: of what it asks for, of the scopes
    at timestamptz NOT NULL,
    status integer,  -- null: it is not known yet
    body text,  -- null: it was shown once, or has no text
    PRIMARY KEY (who, key)
);
CREATE INDEX answer_at ON sexton.answer (at);

-- One row per source and slot with recent failed logins.
CREATE TABLE sexton.login_failure (
    source text COLLATE "C" NOT NULL,  -- an address, or a network of IPv6
    -- a few bits of a digest of the login name, which may be a password in the wrong field; empty: all names together
    slot text COLLATE "C" NOT NULL,
    failures bigint NOT NULL CHECK (failures >= 0),
    last_at timestamptz NOT NULL,
    PRIMARY KEY (source, slot)
);
CREATE INDEX login_failure_last ON sexton.login_failure (last_at);

-- One row per event of a call: its beginning, its outcome, further calls like it. Rows form a chain and never change.
CREATE TABLE sexton.call (
    id bigint PRIMARY KEY,  -- without gaps
    at timestamptz NOT NULL,
    who text NOT NULL,
    source text NOT NULL,
    role text NOT NULL DEFAULT '',  -- the database role that wrote the row
    action text NOT NULL,
    instance text NOT NULL DEFAULT '',
    subject text NOT NULL DEFAULT '',
    outcome text NOT NULL,
    reason text NOT NULL DEFAULT '',
    begun_id bigint,  -- the first row of the same call; null: this is it
    times bigint NOT NULL DEFAULT 1 CHECK (times >= 0),  -- how many calls the row stands for
    previous text NOT NULL CHECK (length(previous) = 64),  -- the hash of the row before
    hash text NOT NULL CHECK (length(hash) = 64)  -- SHA-256 of all other columns
);
CREATE INDEX call_of ON sexton.call (instance, id);
CREATE INDEX call_begun ON sexton.call (begun_id) WHERE begun_id IS NOT NULL;

-- One row: the newest call, and the newest of those that were deleted because of their age; 0: none.
CREATE TABLE sexton.call_head (
    one integer PRIMARY KEY CHECK (one = 1),
    id bigint NOT NULL,
    hash text NOT NULL,
    trimmed_id bigint NOT NULL,
    trimmed_hash text NOT NULL
);
INSERT INTO sexton.call_head VALUES (1, 0, repeat('0', 64), 0, repeat('0', 64));

-- Only roles to which they are granted call the functions: see sexton init --grant-to.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA sexton FROM PUBLIC;
