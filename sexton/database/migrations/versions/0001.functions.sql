-- What comes after the tables (sexton/database/tables): the functions, triggers and policies that guard them. The owner
-- uses one table, mark, and the functions prepare, commit, undrop and reference.
INSERT INTO sexton.instance_guard (instance) VALUES ('*');
-- A row of file_list is updated with each of its pages: in the same page, no index is touched. Its files are compressed
-- already, and kept out of the row.
ALTER TABLE sexton.file_list SET (fillfactor = 45);
ALTER TABLE sexton.file_list ALTER COLUMN files SET STORAGE EXTERNAL;
-- An instance has kinds of its own: how many marks of a kind wait is estimated by the two together.
CREATE STATISTICS sexton.mark_kinds (mcv) ON instance, kind FROM sexton.mark;

CREATE FUNCTION sexton.clock_never_goes_back() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the clock only moves forward';
END $$;
CREATE TRIGGER clock_never_goes_back BEFORE UPDATE ON sexton.clock FOR EACH ROW
    WHEN (NEW.offset_seconds < OLD.offset_seconds) EXECUTE FUNCTION sexton.clock_never_goes_back();

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

-- Refuse marks of unknown instances, of ids that are gone, and with long keys. One statement for all inserted
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
    WHERE NOT EXISTS (SELECT FROM sexton.instance i WHERE i.id = f.instance);
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX004', MESSAGE = format(
            'SX004 unknown instance: %s; register it with: sexton instance add', culprit);
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

-- Admit a commit that names these objects, in two transactions. The first call stores the names and returns false:
-- commit it, and call again with the same values. The second call returns true, or raises SX001 if one of the objects
-- is being deleted, or is deleted: then nothing may be committed. When the commit has succeeded or failed, delete its
-- rows with sexton.end_commit; otherwise they end after ttl. A round fences its marks before it reads these rows, so
-- whichever of the two stores second sees the other. A mark that does not name its files refuses every commit while a
-- round works on it.
-- An array of hashes, no join, and no sequential scan: for a thousand keys a planner would read all marks and history.
CREATE FUNCTION sexton.admit(instance text, commit_id text, vaults text[], keys text[], ttl interval) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    i text := admit.instance;
    now timestamptz := sexton.now();
    hashes integer[] := ARRAY(SELECT hashtext(k) FROM unnest(admit.keys) k);
    stored bigint;
    lost text;
BEGIN
    PERFORM sexton.verify_granted(i);
    IF NOT EXISTS (SELECT FROM sexton.instance n WHERE n.id = i) THEN
        RAISE EXCEPTION USING ERRCODE = 'SX004', MESSAGE = format('SX004 unknown instance: %s', i);
    END IF;
    IF commit_id IS NULL OR cardinality(vaults) IS DISTINCT FROM cardinality(keys) OR array_position(vaults, NULL) > 0
        OR array_position(keys, NULL) > 0 OR ttl IS NULL OR ttl <= interval '0' OR ttl > interval '1 hour' THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE =
            'SX006 admit takes an id, as many vaults as keys, none of them NULL, and a ttl of at most an hour';
    END IF;
    INSERT INTO sexton.commit_under_way (instance, vault, key, commit, until, stored_by)
    SELECT DISTINCT i, f.vault, f.key, commit_id, now + ttl, pg_current_xact_id()::text::bigint
    FROM unnest(admit.vaults, admit.keys) f (vault, key) ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS stored = ROW_COUNT;
    IF stored > 0 OR EXISTS (SELECT FROM sexton.commit_under_way u WHERE u.instance = i AND u.commit = commit_id
        AND u.stored_by = pg_current_xact_id_if_assigned()::text::bigint) THEN
        RETURN false;
    END IF;
    WITH f AS MATERIALIZED (SELECT * FROM unnest(admit.vaults, admit.keys) f (vault, key)
    ), working AS MATERIALIZED (
        SELECT m.kind, m.id, m.vault, m.prefix, m.keys FROM sexton.mark m WHERE m.instance = i AND m.state = 'FENCED'
        UNION ALL
        SELECT m.kind, m.id, m.vault, m.prefix, m.keys FROM sexton.mark m WHERE m.instance = i AND m.state = 'CLAIMED'
    ) SELECT string_agg(l.why, '; ') INTO lost FROM (
        SELECT 'the time of this commit is over' AS why
        WHERE EXISTS (SELECT FROM sexton.commit_under_way u WHERE u.instance = i AND u.commit = commit_id AND u.until <= now)
        UNION ALL
        SELECT f.key || ' is being deleted, by mark ' || m.kind || '/' || m.id
        FROM sexton.mark m JOIN f ON f.key = m.keys ->> 0
        WHERE hashtext(m.keys ->> 0) = ANY (hashes) AND jsonb_array_length(m.keys) = 1 AND m.instance = i
            AND coalesce(m.vault = f.vault, true) AND m.state <> 'MARKED'
        UNION ALL
        SELECT f.key || ' is being deleted, by mark ' || m.kind || '/' || m.id
        FROM working m
        CROSS JOIN LATERAL jsonb_array_elements_text(m.keys) k (key)
        JOIN f ON f.key = k.key AND coalesce(m.vault = f.vault, true)
        WHERE jsonb_array_length(m.keys) > 1
        UNION ALL
        SELECT f.key || ' is being deleted, by mark ' || m.kind || '/' || m.id
        FROM sexton.mark m JOIN f ON starts_with(f.key, m.prefix)
        WHERE m.instance = i AND m.prefix = ANY (sexton.covering_prefixes(admit.keys)) AND m.state <> 'MARKED'
            AND coalesce(m.vault = f.vault, true)
        UNION ALL
        SELECT 'a round works on mark ' || m.kind || '/' || m.id || ', whose files only its owner can name'
        FROM working m
        WHERE m.keys IS NULL AND m.prefix IS NULL
        UNION ALL
        SELECT f.key || ' was deleted at ' || h.gone_at
        FROM sexton.mark_history h JOIN f ON f.key = h.keys ->> 0
        WHERE hashtext(h.keys ->> 0) = ANY (hashes) AND jsonb_array_length(h.keys) = 1 AND h.instance = i AND coalesce(h.vault = f.vault, true) AND h.discarded IS NULL
        UNION ALL
        SELECT k.key || ' was deleted at ' || h.gone_at
        FROM sexton.mark_history h CROSS JOIN LATERAL jsonb_array_elements_text(h.keys) k (key)
        JOIN f ON f.key = k.key AND coalesce(h.vault = f.vault, true)
        WHERE h.instance = i AND jsonb_array_length(h.keys) > 1 AND h.keys ?| admit.keys AND h.discarded IS NULL
    ) l;
    IF lost IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX001',
            MESSAGE = format('SX001 collected: %s; do not commit', left(lost, 2000));
    END IF;
    RETURN true;
END $$;

-- Remove the names of a commit that has succeeded or failed. Repeatable.
CREATE FUNCTION sexton.end_commit(instance text, commit_id text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM sexton.verify_granted(end_commit.instance);
    DELETE FROM sexton.commit_under_way u WHERE u.instance = end_commit.instance AND u.commit = commit_id;
END $$;

-- Only roles to which they are granted call the functions: see sexton init --grant-to.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA sexton FROM PUBLIC;
