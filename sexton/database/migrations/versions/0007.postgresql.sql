-- Sexton 0007 on PostgreSQL: what an instance's keys look like, and more kinds of findings.

-- key_pattern: the regular expression that all keys of its owner match; what matches it and is known to nobody is an orphan.
-- check_base: the number of a check; a later one is not compared with what it and those before it saw.
ALTER TABLE sexton.instance ADD COLUMN key_pattern text NOT NULL DEFAULT '', ADD COLUMN check_base bigint NOT NULL DEFAULT 0;

-- progress: what of a long run is done and need not be done again. open_counts: type -> findings open at its end, and confirmed.
ALTER TABLE sexton.check_run ADD COLUMN asked_by text NOT NULL DEFAULT '', ADD COLUMN progress jsonb, ADD COLUMN open_counts jsonb;

ALTER TABLE sexton.finding DROP CONSTRAINT finding_type_check;
ALTER TABLE sexton.finding ADD CONSTRAINT finding_type_check
    CHECK (type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND', 'UPLOAD', 'RECORD'));
-- proven_in: the last whole check that saw it. mark: the id of the mark that a repair made of it.
ALTER TABLE sexton.finding ADD COLUMN detail text NOT NULL DEFAULT '', ADD COLUMN proven_in bigint,
    ADD COLUMN mark text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX finding_mark ON sexton.finding (instance, mark) WHERE mark <> '';

-- etags: of the objects that keys name, as they were found; another object under such a key is not deleted.
ALTER TABLE sexton.mark ADD COLUMN etags jsonb;

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
    -- What a repair took for an orphan and this commit makes visible is none; what it took already is lost.
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
