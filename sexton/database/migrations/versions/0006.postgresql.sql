-- Sexton 0006 on PostgreSQL: whether metadata and objects agree.

-- evidence: what the run saw; missing_inputs: why it proves nothing. Both from its end on.
CREATE TABLE sexton.check_run (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    run text COLLATE "C" NOT NULL UNIQUE,
    state text NOT NULL CHECK (state IN ('RUNNING', 'WHOLE', 'PARTIAL')),
    cutoff timestamptz NOT NULL,
    ended_at timestamptz,
    evidence jsonb,
    missing_inputs jsonb
);
CREATE INDEX check_run_of ON sexton.check_run (instance, id);

-- seen_in: the last run that saw it. proven_at: the cutoff of the first of an unbroken row of whole runs that did.
CREATE TABLE sexton.finding (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL CHECK (type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND')),
    vault text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    expected bigint,
    size bigint,
    etag text NOT NULL DEFAULT '',
    record text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'ACCEPTED', 'REPAIRED', 'GONE')),
    first_seen timestamptz NOT NULL,
    seen_in bigint NOT NULL,
    proven_at timestamptz,
    confirmed_at timestamptz,
    accepted_by text NOT NULL DEFAULT '',
    UNIQUE (instance, type, vault, key)
);
CREATE INDEX finding_in ON sexton.finding (instance, seen_in);
