-- Sexton 0009 on PostgreSQL: users with passwords, and the short-lived tokens they ask for.

-- hash: of the password, as argon2id writes it; empty: the user was removed.
CREATE TABLE sexton.api_user (
    name text COLLATE "C" PRIMARY KEY,
    hash text NOT NULL,
    scope text NOT NULL,
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    changed_at timestamptz NOT NULL,
    removed_at timestamptz,
    removed_by text NOT NULL DEFAULT ''
);

-- of_user: whose password it was given for; null: made at the command line.
ALTER TABLE sexton.token ADD COLUMN of_user text COLLATE "C";
CREATE INDEX token_of_user ON sexton.token (of_user) WHERE of_user IS NOT NULL;
CREATE INDEX token_over ON sexton.token (expires_at) WHERE of_user IS NOT NULL;

-- Logins that failed lately. source: an address, or a network of IPv6. slot: a few bits of a digest of the name that
-- was given, which may be a password in the wrong field; empty: all names together.
CREATE TABLE sexton.login_failure (
    source text COLLATE "C" NOT NULL,
    slot text COLLATE "C" NOT NULL,
    failures bigint NOT NULL CHECK (failures >= 0),
    last_at timestamptz NOT NULL,
    PRIMARY KEY (source, slot)
);
CREATE INDEX login_failure_last ON sexton.login_failure (last_at);
