-- Sexton 0005 on SQLite: who may call, and who called.

-- digest: of the secret, in hex; the secret itself is nowhere.
CREATE TABLE sexton_token (
    id text PRIMARY KEY NOT NULL CHECK (length(id) = 12),
    scope text NOT NULL,
    digest text NOT NULL CHECK (length(digest) = 64),
    note text NOT NULL DEFAULT '',
    created_at integer NOT NULL,
    created_by text NOT NULL,
    expires_at integer NOT NULL,
    revoked_at integer,
    revoked_by text NOT NULL DEFAULT ''
);

CREATE TABLE sexton_call (
    id integer PRIMARY KEY AUTOINCREMENT NOT NULL,
    at integer NOT NULL,
    who text NOT NULL,
    source text NOT NULL,
    action text NOT NULL,
    instance text NOT NULL DEFAULT '',
    subject text NOT NULL DEFAULT '',
    outcome text NOT NULL,
    reason text NOT NULL DEFAULT ''
);
CREATE INDEX sexton_call_of ON sexton_call (instance, id);
