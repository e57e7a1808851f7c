-- Sexton 0002 on SQLite: what an operator says (stops, lists, windows, holds), when an instance has its next turn,
-- and counters that outlive the rounds they were counted in.

CREATE TABLE sexton_control (
    kind text NOT NULL CHECK (kind IN ('stop', 'blacklist', 'whitelist', 'vault_whitelist', 'window')),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since integer NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS integer)),
    PRIMARY KEY (kind, name)
);

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

CREATE TABLE sexton_counter (
    instance text NOT NULL,
    name text NOT NULL,
    label text NOT NULL,
    value integer NOT NULL DEFAULT 0,
    PRIMARY KEY (instance, name, label)
);

ALTER TABLE sexton_instance ADD COLUMN turn_at integer;
ALTER TABLE sexton_instance ADD COLUMN retry_at integer;
ALTER TABLE sexton_instance ADD COLUMN failures integer NOT NULL DEFAULT 0;
ALTER TABLE sexton_instance ADD COLUMN last_success_at integer;

ALTER TABLE sexton_mark_history ADD COLUMN discarded text;

-- Why a round that runs holds no lease: paused, backing off.
ALTER TABLE sexton_round ADD COLUMN waiting text;
ALTER TABLE sexton_round ADD COLUMN waiting_since integer;
CREATE INDEX sexton_round_waiting ON sexton_round (instance) WHERE waiting IS NOT NULL;

-- A run that was reset starts its attempts at 1 again: of two workers with one epoch and attempt the last to open writes.
ALTER TABLE sexton_batch ADD COLUMN open_count integer NOT NULL DEFAULT 0;
