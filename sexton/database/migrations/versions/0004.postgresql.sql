-- Sexton 0004 on PostgreSQL: sync protection.

-- How far the owner has come, in numbers of its own (no time); a finished protection waits until this is past it.
ALTER TABLE sexton.instance ADD COLUMN watermark bigint, ADD COLUMN watermark_at timestamptz;

-- changes grows with each change of what is covered: a claim that looked before sees that it must look again.
-- sizes: the lengths of its prefixes, in characters. sealed: what came of its registration.
CREATE TABLE sexton.protection (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    instance text COLLATE "C" NOT NULL REFERENCES sexton.instance,
    job text COLLATE "C" NOT NULL CHECK (length(job) BETWEEN 1 AND 200),
    owner text NOT NULL,
    description text NOT NULL DEFAULT '',
    state text NOT NULL CHECK (state IN ('OPEN', 'ACTIVE', 'SOFT')),
    valid_ts bigint,
    registered_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    finished_at timestamptz,
    digest text NOT NULL,
    changes bigint NOT NULL DEFAULT 0,
    sizes jsonb NOT NULL DEFAULT '[]',
    filter bytea,
    sealed jsonb,
    UNIQUE (instance, job)
);

-- No foreign key: an ended protection goes at once, its rows a few at a time; without it they cover nothing.
CREATE TABLE sexton.protection_item (
    instance text COLLATE "C" NOT NULL,
    vault text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    prefix boolean NOT NULL,
    protection bigint NOT NULL,
    PRIMARY KEY (instance, vault, key, prefix, protection)
);
CREATE INDEX protection_item_of ON sexton.protection_item (protection);

-- Chunks that were taken: the same again changes nothing, another one under its number is refused.
CREATE TABLE sexton.protection_chunk (
    protection bigint NOT NULL REFERENCES sexton.protection ON DELETE CASCADE,
    number bigint NOT NULL,
    digest text NOT NULL,
    result jsonb,
    PRIMARY KEY (protection, number)
);
