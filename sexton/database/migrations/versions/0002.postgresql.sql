-- Sexton 0002 on PostgreSQL: what an operator says (stops, lists, windows, holds), when an instance has its next turn,
-- and counters that outlive the rounds they were counted in.

CREATE TABLE sexton.control (
    kind text COLLATE "C" NOT NULL CHECK (kind IN ('stop', 'blacklist', 'whitelist', 'vault_whitelist', 'window')),
    name text COLLATE "C" NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    reason text NOT NULL DEFAULT '',
    set_by text NOT NULL DEFAULT '',
    since timestamptz NOT NULL DEFAULT sexton.now(),
    PRIMARY KEY (kind, name)
);

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

CREATE TABLE sexton.counter (
    instance text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    label text COLLATE "C" NOT NULL,
    value bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (instance, name, label)
);

ALTER TABLE sexton.instance ADD COLUMN turn_at timestamptz, ADD COLUMN retry_at timestamptz,
    ADD COLUMN failures integer NOT NULL DEFAULT 0, ADD COLUMN last_success_at timestamptz;

ALTER TABLE sexton.mark_history ADD COLUMN discarded text;

-- Why a round that runs holds no lease: paused, backing off.
ALTER TABLE sexton.round ADD COLUMN waiting text, ADD COLUMN waiting_since timestamptz;
CREATE INDEX round_waiting ON sexton.round (instance) WHERE waiting IS NOT NULL;

-- A run that was reset starts its attempts at 1 again: of two workers with one epoch and attempt the last to open writes.
ALTER TABLE sexton.batch ADD COLUMN open_count integer NOT NULL DEFAULT 0;
