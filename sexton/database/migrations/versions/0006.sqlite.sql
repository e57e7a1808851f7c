-- Sexton 0006 on SQLite: whether metadata and objects agree.

-- evidence: what the run saw; missing_inputs: why it proves nothing. Both from its end on.
CREATE TABLE sexton_check_run (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL REFERENCES sexton_instance,
    run text NOT NULL UNIQUE,
    state text NOT NULL CHECK (state IN ('RUNNING', 'WHOLE', 'PARTIAL')),
    cutoff integer NOT NULL,
    ended_at integer,
    evidence text,
    missing_inputs text
);
CREATE INDEX sexton_check_run_of ON sexton_check_run (instance, id);

-- seen_in: the last run that saw it. proven_at: the cutoff of the first of an unbroken row of whole runs that did.
CREATE TABLE sexton_finding (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL,
    type text NOT NULL CHECK (type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND')),
    vault text NOT NULL,
    key text NOT NULL,
    expected integer,
    size integer,
    etag text NOT NULL DEFAULT '',
    record text NOT NULL DEFAULT '',
    state text NOT NULL DEFAULT 'OPEN' CHECK (state IN ('OPEN', 'ACCEPTED', 'REPAIRED', 'GONE')),
    first_seen integer NOT NULL,
    seen_in integer NOT NULL,
    proven_at integer,
    confirmed_at integer,
    accepted_by text NOT NULL DEFAULT '',
    UNIQUE (instance, type, vault, key)
);
CREATE INDEX sexton_finding_in ON sexton_finding (instance, seen_in);
