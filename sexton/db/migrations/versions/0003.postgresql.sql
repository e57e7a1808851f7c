-- Sexton 0003 on PostgreSQL: owners, fencing, approvals, limits, pace, and what a vault's store really does.

-- Who knows what an instance's marks mean; and the retentions that a person has agreed to (kind → seconds).
ALTER TABLE sexton.instance ADD COLUMN owner text NOT NULL DEFAULT 'sql' CHECK (owner IN ('sql', 'catalog')),
    ADD COLUMN retentions jsonb;

-- What a delete does in a versioned bucket, whether it names the ETag it means, and what the store was seen to do.
ALTER TABLE sexton.vault ADD COLUMN versions text NOT NULL DEFAULT 'keep' CHECK (versions IN ('keep', 'purge')),
    ADD COLUMN conditional boolean NOT NULL DEFAULT false, ADD COLUMN probe jsonb;

-- lacking: why its record stays when the files that could be named are gone. absorbed: it goes with its parent's files.
ALTER TABLE sexton.mark ADD COLUMN lacking text, ADD COLUMN absorbed boolean NOT NULL DEFAULT false;
-- A fenced mark that a holder kept is still due.
DROP INDEX sexton.mark_due;
CREATE INDEX mark_due ON sexton.mark (instance, kind, ages_from, id)
    WHERE state <> 'CLAIMED' AND quarantined_reason IS NULL;

-- awaits: why a person must apply the plan before it expires.
ALTER TABLE sexton.plan ADD COLUMN awaits text, ADD COLUMN expires_at timestamptz,
    ADD COLUMN approved_by text, ADD COLUMN approved_at timestamptz;
CREATE INDEX plan_open ON sexton.plan (instance, id) WHERE awaits IS NOT NULL AND state = 'PLANNED';

-- Objects claimed that count against the limits of 24 hours, and when the last of them were.
ALTER TABLE sexton.batch ADD COLUMN limited bigint NOT NULL DEFAULT 0, ADD COLUMN claimed_at timestamptz;
CREATE INDEX batch_limited ON sexton.batch (instance, claimed_at) WHERE limited > 0;

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
                WHEN m.state = 'FENCED' THEN 'is fenced: its transaction was aborted (it expired at ' || m.expires_at || ')'
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
