-- Sexton 0005 on PostgreSQL: who may call, and who called.

-- digest: of the secret, in hex; the secret itself is nowhere.
CREATE TABLE sexton.token (
    id text COLLATE "C" PRIMARY KEY CHECK (id ~ '^[0-9a-f]{12}$'),
    scope text NOT NULL,
    digest text NOT NULL CHECK (length(digest) = 64),
    note text NOT NULL DEFAULT '',
    created_at timestamptz NOT NULL,
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    revoked_by text NOT NULL DEFAULT ''
);

CREATE TABLE sexton.call (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at timestamptz NOT NULL,
    who text NOT NULL,
    source text NOT NULL,
    action text NOT NULL,
    instance text NOT NULL DEFAULT '',
    subject text NOT NULL DEFAULT '',
    outcome text NOT NULL,
    reason text NOT NULL DEFAULT ''
);
CREATE INDEX call_of ON sexton.call (instance, id);
