-- Sexton 0001 on PostgreSQL: everything lives in schema sexton; the owner uses one table through a few functions.
CREATE SCHEMA IF NOT EXISTS sexton;

CREATE TABLE sexton.clock (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    deployment text NOT NULL,
    offset_seconds bigint NOT NULL DEFAULT 0 CHECK (offset_seconds >= 0),
    CONSTRAINT clock_moves_only_in_demo_and_test CHECK (offset_seconds = 0 OR deployment ~ '^(demo|test)-')
);

CREATE FUNCTION sexton.now() RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
BEGIN
    RETURN date_trunc('milliseconds', clock_timestamp())
        + (SELECT offset_seconds FROM sexton.clock) * interval '1 second';
END $$;

CREATE FUNCTION sexton.clock_never_goes_back() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the clock only moves forward';
END $$;
CREATE TRIGGER clock_never_goes_back BEFORE UPDATE ON sexton.clock FOR EACH ROW
    WHEN (NEW.offset_seconds < OLD.offset_seconds) EXECUTE FUNCTION sexton.clock_never_goes_back();

CREATE TABLE sexton.instance (
    id text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    mode text NOT NULL DEFAULT 'observe' CHECK (mode IN ('observe', 'enabled')),
    created_at timestamptz NOT NULL DEFAULT sexton.now(),
    enabled_at timestamptz
);

CREATE TABLE sexton.instance_guard (
    instance text PRIMARY KEY,
    seq bigint NOT NULL DEFAULT 0
);

INSERT INTO sexton.instance_guard (instance) VALUES ('*');

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
    PRIMARY KEY (instance, name)
);

CREATE TABLE sexton.mark (
    instance text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    state text NOT NULL DEFAULT 'MARKED',
    marked_at timestamptz NOT NULL DEFAULT date_trunc('milliseconds', clock_timestamp()),
    expires_at timestamptz,
    retention_starts_at timestamptz NOT NULL GENERATED ALWAYS AS (coalesce(expires_at, marked_at)) STORED,
    parent_kind text COLLATE "C",
    parent_id text COLLATE "C",
    vault text COLLATE "C",
    prefix text COLLATE "C",
    keys jsonb,
    bytes bigint NOT NULL DEFAULT 0,
    owner_txn text,
    lease_epoch bigint,
    batch bigint,
    claimed_at timestamptz,
    first_pass_at timestamptz,
    objects_gone bigint NOT NULL DEFAULT 0,
    bytes_gone bigint NOT NULL DEFAULT 0,
    quarantined_reason text,
    failures integer NOT NULL DEFAULT 0,
    last_error text,
    next_try_at timestamptz,
    -- id first: led by instance and kind a planner without statistics reads every mark of the kind and filters.
    PRIMARY KEY (id, kind, instance),
    CONSTRAINT mark_kind_is_a_name CHECK (kind ~ '^[a-z][a-z0-9_-]{0,31}$'),
    CONSTRAINT mark_id_is_text_of_128 CHECK (id ~ '^[A-Za-z0-9.-]{1,128}$'),
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
    -- Cursors are milliseconds; a finer instant would come after itself for ever.
    CONSTRAINT mark_expires_at_a_millisecond CHECK (date_trunc('milliseconds', expires_at) = expires_at),
    CONSTRAINT mark_parent_is_whole CHECK ((parent_kind IS NULL) = (parent_id IS NULL))
);
CREATE INDEX mark_due ON sexton.mark (instance, kind, retention_starts_at, id)
    WHERE state = 'MARKED' AND quarantined_reason IS NULL;
CREATE INDEX mark_claimed ON sexton.mark (instance, batch, kind, id) WHERE state = 'CLAIMED';
CREATE INDEX mark_late ON sexton.mark (instance, kind, id) WHERE state = 'CLAIMED' AND first_pass_at IS NOT NULL;
CREATE INDEX mark_children ON sexton.mark (instance, parent_kind, parent_id) WHERE parent_id IS NOT NULL;
CREATE INDEX mark_quarantined ON sexton.mark (instance, quarantined_reason) WHERE quarantined_reason IS NOT NULL;

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
    PRIMARY KEY (id, kind, instance)
);
CREATE INDEX mark_history_gone ON sexton.mark_history (instance, gone_at);
CREATE INDEX mark_history_children ON sexton.mark_history (instance, parent_kind, parent_id) WHERE parent_id IS NOT NULL;

CREATE TABLE sexton.mark_file (
    batch bigint NOT NULL,
    seq bigint NOT NULL,
    instance text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    vault text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    bytes bigint,
    etag text NOT NULL DEFAULT '',
    outcome text,
    reason text,
    PRIMARY KEY (batch, seq)
);
CREATE INDEX mark_file_of_mark ON sexton.mark_file (id, kind, instance);

CREATE TABLE sexton.lease (
    instance text NOT NULL,
    job text NOT NULL,
    state text NOT NULL DEFAULT 'IDLE' CHECK (state IN ('IDLE', 'BUSY')),
    owner text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0,
    acquired_at timestamptz,
    expires_at timestamptz,
    PRIMARY KEY (instance, job)
);

CREATE TABLE sexton.plan (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL,
    created_at timestamptz NOT NULL,
    state text NOT NULL DEFAULT 'PLANNED' CHECK (state IN ('PLANNED', 'APPLYING', 'APPLIED')),
    planned_by text NOT NULL,
    policy_version text NOT NULL,
    body jsonb NOT NULL
);

CREATE TABLE sexton.round (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text NOT NULL,
    run_id text NOT NULL UNIQUE,
    plan bigint REFERENCES sexton.plan (id),
    state text NOT NULL DEFAULT 'RUNNING' CHECK (state IN ('RUNNING', 'SUCCEEDED', 'FAILED')),
    started_at timestamptz NOT NULL,
    ended_at timestamptz,
    report jsonb
);
CREATE INDEX round_of_instance ON sexton.round (instance, id);

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
    UNIQUE (round, kind, number)
);

CREATE INDEX batch_open ON sexton.batch (instance) WHERE state = 'OPEN';

CREATE TABLE sexton.tally (
    round bigint NOT NULL REFERENCES sexton.round (id),
    kind text NOT NULL,
    vault text NOT NULL,
    claimed bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    deleted bigint NOT NULL DEFAULT 0,
    absent bigint NOT NULL DEFAULT 0,
    hidden bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    bytes_freed bigint NOT NULL DEFAULT 0,
    bytes_estimated bigint NOT NULL DEFAULT 0,
    bytes_hidden bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (round, kind, vault)
);

-- One statement-level look at what was marked: a row trigger would cost the owner's bulk marks a look-up per row.
CREATE FUNCTION sexton.mark_inserted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
DECLARE
    culprit text;
BEGIN
    SELECT string_agg(DISTINCT f.instance, ', ') INTO culprit FROM fresh f
    WHERE NOT EXISTS (SELECT FROM sexton.instance i WHERE i.id = f.instance);
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX004',
            MESSAGE = format('SX004 unknown instance: %s; register it with: sexton instance add', culprit);
    END IF;
    SELECT f.kind || ' ' || f.id || ' since ' || h.gone_at || ' (batch ' || h.batch || ')' INTO culprit
    FROM fresh f JOIN sexton.mark_history h USING (instance, kind, id) LIMIT 1;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX005',
            MESSAGE = format('SX005 gone: %s; ids are never used again', culprit);
    END IF;
    -- The default is the bare clock (a function of ours would be called for each row); demo and test add their offset.
    UPDATE sexton.mark m SET marked_at = m.marked_at + c.offset_seconds * interval '1 second'
    FROM fresh f, sexton.clock c
    WHERE c.offset_seconds > 0 AND m.instance = f.instance AND m.kind = f.kind AND m.id = f.id;
    RETURN NULL;
END $$;
CREATE TRIGGER mark_inserted AFTER INSERT ON sexton.mark
    REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION sexton.mark_inserted();

CREATE FUNCTION sexton.claimed_is_irrevocable() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a claimed mark stays claimed: % % %', OLD.instance, OLD.kind, OLD.id;
END $$;
CREATE TRIGGER claimed_is_irrevocable BEFORE UPDATE ON sexton.mark FOR EACH ROW
    WHEN (OLD.state = 'CLAIMED' AND NEW.state <> 'CLAIMED') EXECUTE FUNCTION sexton.claimed_is_irrevocable();

CREATE FUNCTION sexton.prepare(instance text, owner_txn text, ids text[], vault text, prefixes text[], txn_ttl interval)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
DECLARE
    n integer;
BEGIN
    IF cardinality(ids) IS DISTINCT FROM cardinality(prefixes) OR array_position(prefixes, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 prepare takes one prefix for each id';
    END IF;
    IF txn_ttl IS NULL OR txn_ttl <= interval '0' OR txn_ttl > interval '366 days' THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 txn_ttl must be longer than 0 and at most 366 days';
    END IF;
    INSERT INTO sexton.mark (instance, kind, id, vault, prefix, owner_txn, expires_at)
    SELECT prepare.instance, 'prepared', p.id, prepare.vault, p.prefix, prepare.owner_txn,
        date_trunc('milliseconds', sexton.now() + txn_ttl)
    FROM unnest(ids, prefixes) AS p (id, prefix);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- The commit of the owner's metadata *is* the removal of its own marks: fewer rows than ids, and it must roll back.
CREATE FUNCTION sexton.commit(instance text, ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
DECLARE
    wanted text[] := ARRAY(SELECT DISTINCT unnest(ids));
    removed text[];
    lost text;
BEGIN
    IF wanted IS NULL OR ids IS NULL OR array_position(wanted, NULL) IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 commit takes ids, none of them NULL';
    END IF;
    WITH ours AS (
        DELETE FROM sexton.mark m
        WHERE m.instance = commit.instance AND m.kind = 'prepared' AND m.id = ANY (wanted) AND m.state = 'MARKED'
        RETURNING m.id
    ) SELECT coalesce(array_agg(ours.id), '{}') INTO removed FROM ours;
    IF cardinality(removed) < cardinality(wanted) THEN
        SELECT string_agg(w.id || ' ' || CASE
                WHEN m.state IS NOT NULL AND m.state <> 'MARKED'
                    THEN 'claimed in batch ' || m.batch || ' at ' || m.claimed_at || ' (its transaction expired at ' || m.expires_at || ')'
                WHEN h.id IS NOT NULL THEN 'gone in batch ' || h.batch || ' at ' || h.gone_at
                ELSE 'was never prepared, or is committed already' END, '; ')
        INTO lost
        FROM (SELECT unnest(wanted) AS id) w
        LEFT JOIN sexton.mark m ON m.instance = commit.instance AND m.kind = 'prepared' AND m.id = w.id
        LEFT JOIN sexton.mark_history h ON h.instance = commit.instance AND h.kind = 'prepared' AND h.id = w.id
        WHERE w.id <> ALL (removed);
        RAISE EXCEPTION USING ERRCODE = 'SX001',
            MESSAGE = format('SX001 collected: %s; roll this commit back', left(lost, 2000));
    END IF;
    RETURN cardinality(removed);
END $$;

-- Undrop decides, so it takes the guard; it must come before anything this transaction writes (lock order), but for an
-- earlier undrop of the same instance, which holds the guard already.
CREATE FUNCTION sexton.undrop(instance text, kind text, ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
#variable_conflict use_column
DECLARE
    i text := undrop.instance;
    k text := undrop.kind;
    wanted text[] := ARRAY(SELECT DISTINCT unnest(undrop.ids));
    n integer;
    refused text;
BEGIN
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
        WHERE NOT (up.kind = k AND up.id = ANY (wanted))  -- an ancestor that comes back in the same call is no obstacle
          AND (EXISTS (SELECT FROM sexton.mark m WHERE m.instance = i AND m.kind = up.kind AND m.id = up.id)
            OR EXISTS (SELECT FROM sexton.mark_history h WHERE h.instance = i AND h.kind = up.kind AND h.id = up.id))
        UNION ALL
        SELECT down.root || ': its descendant ' || down.kind || ' ' || down.id || ' is claimed' FROM down
        JOIN sexton.mark m ON m.instance = i AND m.kind = down.kind AND m.id = down.id
        WHERE down.depth > 0 AND m.state = 'CLAIMED'
        UNION ALL
        SELECT w.id || ': its descendant ' || h.kind || ' ' || h.id || ' is gone'
        FROM unnest(wanted) AS w (id) JOIN sexton.mark_history h
            ON h.instance = i AND h.parent_kind = k AND h.parent_id = w.id
    )
    SELECT string_agg(why, '; ') INTO refused FROM reasons;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX003', MESSAGE = format('SX003 refused: %s', left(refused, 2000));
    END IF;
    DELETE FROM sexton.mark m WHERE m.instance = i AND m.kind = k AND m.id = ANY (wanted) AND m.state = 'MARKED';
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
