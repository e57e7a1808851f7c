-- Sexton 0003 on PostgreSQL: owners, fencing, approvals, limits, pace, and what a vault's store really does.

-- Who knows what an instance's marks mean; and the retentions that a person has agreed to (kind → seconds).
ALTER TABLE sexton.instance ADD COLUMN owner text NOT NULL DEFAULT 'sql' CHECK (owner IN ('sql', 'catalog')),
    ADD COLUMN retentions jsonb;

-- What a delete does in a versioned bucket, whether it names the ETag it means, and what the store was seen to do.
ALTER TABLE sexton.vault ADD COLUMN versions text NOT NULL DEFAULT 'keep' CHECK (versions IN ('keep', 'purge')),
    ADD COLUMN conditional boolean NOT NULL DEFAULT false, ADD COLUMN probe jsonb;

-- lacking: why its record stays when the files that could be named are gone. absorbed: it goes with its parent's files.
-- claimed_batch: the batch that claimed it; a second look has another one.
ALTER TABLE sexton.mark ADD COLUMN lacking text, ADD COLUMN absorbed boolean NOT NULL DEFAULT false,
    ADD COLUMN claimed_batch bigint;
ALTER TABLE sexton.mark_history ADD COLUMN absorbed boolean NOT NULL DEFAULT false;
CREATE INDEX mark_fenced ON sexton.mark (instance) WHERE state = 'FENCED';
-- A fenced mark that a holder kept is still due.
DROP INDEX sexton.mark_due;
CREATE INDEX mark_due ON sexton.mark (instance, kind, retention_starts_at, id)
    WHERE state <> 'CLAIMED' AND quarantined_reason IS NULL;

-- awaits: why a person must apply the plan before it expires; of a rejected one, by whom and why it was.
ALTER TABLE sexton.plan ADD COLUMN awaits text, ADD COLUMN expires_at timestamptz,
    ADD COLUMN approved_by text, ADD COLUMN approved_at timestamptz,
    ADD COLUMN rejected boolean NOT NULL DEFAULT false;
CREATE INDEX plan_open ON sexton.plan (instance, id) WHERE awaits IS NOT NULL;
CREATE INDEX plan_answered ON sexton.plan (instance, approved_at) WHERE approved_at IS NOT NULL;

-- Objects claimed that count against the limits of 24 hours, and when the last of them were.
ALTER TABLE sexton.batch ADD COLUMN limited_objects bigint NOT NULL DEFAULT 0, ADD COLUMN claimed_at timestamptz;
CREATE INDEX batch_limited ON sexton.batch (instance, claimed_at) WHERE limited_objects > 0;

-- How fast one partition of a store takes deletes, as all workers together have learned it; and who shares it now.
CREATE TABLE sexton.pace (
    place text COLLATE "C" PRIMARY KEY,
    keys_per_second bigint NOT NULL,
    ceiling bigint NOT NULL DEFAULT 0,
    throttled_at timestamptz,
    updated_at timestamptz NOT NULL
);
CREATE TABLE sexton.pace_share (
    place text COLLATE "C" NOT NULL,
    worker text COLLATE "C" NOT NULL,
    seen_at timestamptz NOT NULL,
    requests bigint NOT NULL DEFAULT 0,
    throttled bigint NOT NULL DEFAULT 0,
    keys bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (place, worker)
);
-- An operator's upper bound.
CREATE TABLE sexton.pace_cap (
    instance text COLLATE "C" NOT NULL,
    vault text COLLATE "C" NOT NULL,
    keys_per_second bigint NOT NULL CHECK (keys_per_second > 0),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since timestamptz NOT NULL,
    PRIMARY KEY (instance, vault)
);

-- With what the prepared files belong to: a hold on it keeps them too.
CREATE FUNCTION sexton.prepare(instance text, owner_txn text, ids text[], vault text, prefixes text[],
    txn_ttl interval, parent_kind text, parent_ids text[])
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
DECLARE
    n integer;
BEGIN
    IF cardinality(ids) IS DISTINCT FROM cardinality(prefixes) OR array_position(prefixes, NULL) IS NOT NULL
        OR (parent_kind IS NOT NULL AND cardinality(ids) IS DISTINCT FROM cardinality(parent_ids)) THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006',
            MESSAGE = 'SX006 prepare takes one prefix for each id, and one parent where any is given';
    END IF;
    IF txn_ttl IS NULL OR txn_ttl <= interval '0' OR txn_ttl > interval '366 days' THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = 'SX006 txn_ttl must be longer than 0 and at most 366 days';
    END IF;
    INSERT INTO sexton.mark (instance, kind, id, vault, prefix, owner_txn, expires_at, parent_kind, parent_id)
    SELECT prepare.instance, 'prepared', p.id, prepare.vault, p.prefix, prepare.owner_txn,
        date_trunc('milliseconds', sexton.now() + txn_ttl), prepare.parent_kind, p.parent
    FROM unnest(ids, prefixes, parent_ids) AS p (id, prefix, parent);
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;
CREATE OR REPLACE FUNCTION sexton.prepare(instance text, owner_txn text, ids text[], vault text, prefixes text[],
    txn_ttl interval)
RETURNS integer LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp AS $$
BEGIN
    RETURN sexton.prepare(instance, owner_txn, ids, vault, prefixes, txn_ttl, NULL::text, NULL::text[]);
END $$;

-- A commit is refused from the fence on, and says so.
CREATE OR REPLACE FUNCTION sexton.commit(instance text, ids text[]) RETURNS integer
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
                WHEN m.state = 'FENCED' THEN 'is fenced: a round is about to collect it; unless its transaction was aborted, commit again after that round'
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

-- What became garbage by itself, or was gone before its parent was dropped, is no obstacle to bringing that back. With a
-- plan for each call: one made for other numbers of ids was seen to take 100 s instead of 0.3.
CREATE OR REPLACE FUNCTION sexton.undrop(instance text, kind text, ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = sexton, pg_temp SET plan_cache_mode = force_custom_plan AS $$
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
        WHERE down.depth > 0 AND m.state = 'CLAIMED' AND m.kind NOT IN ('compacted', 'prepared')
        UNION ALL
        SELECT w.id || ': its descendant ' || h.kind || ' ' || h.id || ' is gone'
        FROM unnest(wanted) AS w (id) JOIN sexton.mark_history h
            ON h.instance = i AND h.parent_kind = k AND h.parent_id = w.id
            AND h.kind NOT IN ('compacted', 'prepared')
        JOIN sexton.mark p ON p.instance = i AND p.kind = k AND p.id = w.id AND h.claimed_at >= p.marked_at
    )
    SELECT string_agg(why, '; ') INTO refused FROM reasons;
    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX003', MESSAGE = format('SX003 refused: %s', left(refused, 2000));
    END IF;
    DELETE FROM sexton.mark m WHERE m.instance = i AND m.kind = k AND m.id = ANY (wanted) AND m.state = 'MARKED';
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END $$;

-- Its statements have no parameters, so their plans would be kept for the whole session; one made when nothing was
-- inserted was seen to take 49 s for 4,000 marks. EXECUTE plans each anew.
CREATE OR REPLACE FUNCTION sexton.mark_inserted() RETURNS trigger
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
    EXECUTE 'SELECT f.kind || '' '' || f.id || '' since '' || h.gone_at || '' (batch '' || h.batch || '')'''
        ' FROM fresh f JOIN sexton.mark_history h USING (instance, kind, id) LIMIT 1' INTO culprit;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX005',
            MESSAGE = format('SX005 gone: %s; ids are never used again', culprit);
    END IF;
    IF (SELECT offset_seconds FROM sexton.clock) > 0 THEN
        EXECUTE 'UPDATE sexton.mark m SET marked_at = m.marked_at + c.offset_seconds * interval ''1 second'''
            ' FROM fresh f, sexton.clock c WHERE m.instance = f.instance AND m.kind = f.kind AND m.id = f.id';
    END IF;
    RETURN NULL;
END $$;
