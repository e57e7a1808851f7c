-- Sexton 0007 on SQLite: what an instance's keys look like, and more kinds of findings.

-- key_pattern: the regular expression that all keys of its owner match; what matches it and is known to nobody is an orphan.
-- check_base: the number of a check; a later one is not compared with what it and those before it saw.
ALTER TABLE sexton_instance ADD COLUMN key_pattern text NOT NULL DEFAULT '';
ALTER TABLE sexton_instance ADD COLUMN check_base integer NOT NULL DEFAULT 0;

-- progress: what of a long run is done and need not be done again. open_counts: type -> findings open at its end, and confirmed.
ALTER TABLE sexton_check_run ADD COLUMN asked_by text NOT NULL DEFAULT '';
ALTER TABLE sexton_check_run ADD COLUMN progress text;
ALTER TABLE sexton_check_run ADD COLUMN open_counts text;

-- SQLite cannot change a CHECK; no release wrote into the table yet.
DROP TABLE sexton_finding;
CREATE TABLE sexton_finding (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL,
    type text NOT NULL CHECK (type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND', 'UPLOAD', 'RECORD')),
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
    detail text NOT NULL DEFAULT '',
    -- proven_in: the last whole check that saw it. mark: the id of the mark that a repair made of it.
    proven_in integer,
    mark text NOT NULL DEFAULT '',
    UNIQUE (instance, type, vault, key)
);
CREATE INDEX sexton_finding_in ON sexton_finding (instance, seen_in);
CREATE INDEX sexton_finding_mark ON sexton_finding (instance, mark) WHERE mark <> '';

-- etags: of the objects that keys name, as they were found; another object under such a key is not deleted.
ALTER TABLE sexton_mark ADD COLUMN etags text;
