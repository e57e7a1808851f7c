-- Sexton 0009 on SQLite: users with passwords, and the short-lived tokens they ask for.

-- hash: of the password, as argon2id writes it; empty: the user was removed.
CREATE TABLE sexton_api_user (
    name text PRIMARY KEY NOT NULL,
    hash text NOT NULL,
    scope text NOT NULL,
    created_at integer NOT NULL,
    created_by text NOT NULL,
    changed_at integer NOT NULL,
    removed_at integer,
    removed_by text NOT NULL DEFAULT ''
);

-- of_user: whose password it was given for; null: made at the command line.
ALTER TABLE sexton_token ADD COLUMN of_user text;
CREATE INDEX sexton_token_of_user ON sexton_token (of_user) WHERE of_user IS NOT NULL;
CREATE INDEX sexton_token_over ON sexton_token (expires_at) WHERE of_user IS NOT NULL;

-- Logins that failed lately. source: an address, or a network of IPv6. slot: a few bits of a digest of the name that
-- was given, which may be a password in the wrong field; empty: all names together.
CREATE TABLE sexton_login_failure (
    source text NOT NULL,
    slot text NOT NULL,
    failures integer NOT NULL CHECK (failures >= 0),
    last_at integer NOT NULL,
    PRIMARY KEY (source, slot)
);
CREATE INDEX sexton_login_failure_last ON sexton_login_failure (last_at);
