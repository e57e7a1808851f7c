-- Sexton 0003 on SQLite: owners, fencing, approvals, limits, pace, and what a vault's store really does.

-- Who knows what an instance's marks mean; and the retentions that a person has agreed to (kind → seconds).
ALTER TABLE sexton_instance ADD COLUMN owner text NOT NULL DEFAULT 'sql' CHECK (owner IN ('sql', 'catalog'));
ALTER TABLE sexton_instance ADD COLUMN retentions text;

-- What a delete does in a versioned bucket, whether it names the ETag it means, and what the store was seen to do.
ALTER TABLE sexton_vault ADD COLUMN versions text NOT NULL DEFAULT 'keep' CHECK (versions IN ('keep', 'purge'));
ALTER TABLE sexton_vault ADD COLUMN conditional integer NOT NULL DEFAULT 0;
ALTER TABLE sexton_vault ADD COLUMN probe text;

-- lacking: why its record stays when the files that could be named are gone. absorbed: it goes with its parent's files.
ALTER TABLE sexton_mark ADD COLUMN lacking text;
ALTER TABLE sexton_mark ADD COLUMN absorbed integer NOT NULL DEFAULT 0;
-- claimed_batch: the batch that claimed it; a second look has another one.
ALTER TABLE sexton_mark ADD COLUMN claimed_batch integer;
ALTER TABLE sexton_mark_history ADD COLUMN absorbed integer NOT NULL DEFAULT 0;
CREATE INDEX sexton_mark_fenced ON sexton_mark (instance) WHERE state = 'FENCED';
-- A fenced mark that a holder kept is still due.
DROP INDEX sexton_mark_due;
CREATE INDEX sexton_mark_due ON sexton_mark (instance, kind, retention_starts_at, id)
    WHERE state <> 'CLAIMED' AND quarantined_reason IS NULL;

-- awaits: why a person must apply the plan before it expires; of a rejected one, by whom and why it was.
ALTER TABLE sexton_plan ADD COLUMN awaits text;
ALTER TABLE sexton_plan ADD COLUMN expires_at integer;
ALTER TABLE sexton_plan ADD COLUMN approved_by text;
ALTER TABLE sexton_plan ADD COLUMN approved_at integer;
ALTER TABLE sexton_plan ADD COLUMN rejected integer NOT NULL DEFAULT 0;
CREATE INDEX sexton_plan_open ON sexton_plan (instance, id) WHERE awaits IS NOT NULL;
CREATE INDEX sexton_plan_answered ON sexton_plan (instance, approved_at) WHERE approved_at IS NOT NULL;

-- Objects claimed that count against the limits of 24 hours, and when the last of them were.
ALTER TABLE sexton_batch ADD COLUMN limited_objects integer NOT NULL DEFAULT 0;
ALTER TABLE sexton_batch ADD COLUMN claimed_at integer;
CREATE INDEX sexton_batch_limited ON sexton_batch (instance, claimed_at) WHERE limited_objects > 0;

-- How fast one partition of a store takes deletes, as all workers together have learned it; and who shares it now.
CREATE TABLE sexton_pace (
    place text PRIMARY KEY NOT NULL,
    keys_per_second integer NOT NULL,
    ceiling integer NOT NULL DEFAULT 0,
    throttled_at integer,
    updated_at integer NOT NULL
);
CREATE TABLE sexton_pace_share (
    place text NOT NULL,
    worker text NOT NULL,
    seen_at integer NOT NULL,
    requests integer NOT NULL DEFAULT 0,
    throttled integer NOT NULL DEFAULT 0,
    keys integer NOT NULL DEFAULT 0,
    PRIMARY KEY (place, worker)
);
-- An operator's upper bound.
CREATE TABLE sexton_pace_cap (
    instance text NOT NULL,
    vault text NOT NULL,
    keys_per_second integer NOT NULL CHECK (keys_per_second > 0),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since integer NOT NULL,
    PRIMARY KEY (instance, vault)
);
