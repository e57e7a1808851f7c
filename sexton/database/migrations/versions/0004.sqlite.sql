-- Sexton 0004 on SQLite: sync protection.

-- How far the owner has come, in numbers of its own (no time); a finished protection waits until this is past it.
ALTER TABLE sexton_instance ADD COLUMN watermark integer;
ALTER TABLE sexton_instance ADD COLUMN watermark_at integer;

-- changes grows with each change of what is covered: a claim that looked before sees that it must look again.
-- sizes: the lengths of its prefixes, in characters. sealed: what came of its registration.
CREATE TABLE sexton_protection (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    instance text NOT NULL REFERENCES sexton_instance,
    job text NOT NULL CHECK (length(job) BETWEEN 1 AND 200),
    owner text NOT NULL,
    description text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('OPEN', 'ACTIVE', 'SOFT')),
    valid_ts integer,
    registered_at integer NOT NULL,
    expires_at integer NOT NULL,
    finished_at integer,
    digest text NOT NULL,
    changes integer NOT NULL DEFAULT 0,
    sizes text NOT NULL DEFAULT '[]',
    filter blob,
    sealed text,
    UNIQUE (instance, job)
);

-- No foreign key: an ended protection goes at once, its rows a few at a time; without it they cover nothing.
CREATE TABLE sexton_protection_item (
    instance text NOT NULL,
    vault text NOT NULL,
    key text NOT NULL,
    prefix integer NOT NULL,
    protection integer NOT NULL,
    PRIMARY KEY (instance, vault, key, prefix, protection)
);
CREATE INDEX sexton_protection_item_of ON sexton_protection_item (protection);

-- Chunks that were taken: the same again changes nothing, another one under its number is refused.
CREATE TABLE sexton_protection_chunk (
    protection integer NOT NULL REFERENCES sexton_protection ON DELETE CASCADE,
    number integer NOT NULL,
    digest text NOT NULL,
    result text,
    PRIMARY KEY (protection, number)
);
