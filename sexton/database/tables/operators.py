"""Tables of the operators: the registry of instances and vaults, controls, settings, holds, access, the call log."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json, Serial

instance = Table(
    "instance",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("mode", Text),  # observe, enabled or deleted
    Column("created_at", Instant),
    Column("enabled_at", Instant),
    Column("turn_at", Instant),  # when its current schedule slot began
    Column("retry_at", Instant),
    Column("failures", BigInteger),
    Column("last_success_at", Instant),
    Column("owner", Text),  # which installed owner answers for its marks
    Column("owner_options", Json),  # what that owner needs to know of it
    Column("knows_live", Boolean),  # the owner knows which objects are live, without a view
    Column("owner_cursor", Text),  # up to where the owner's list of garbage was read
    Column("underscore_in_ids", Boolean),  # otherwise prefixes may end with _
    Column("retentions", Json),  # kind → seconds, as an operator agreed to them
    # how far the owner has come, in its own numbers; a finished protection waits for it
    Column("watermark", BigInteger),
    Column("watermark_at", Instant),
    Column("key_pattern", Text),  # regular expression that all keys of the owner match
    Column("live_view", Text),  # the view of its live objects, none, or empty
    Column("check_base", BigInteger),  # a check is not compared with the check of this number and those before it
)
"""One row per instance: a database or lake that Sexton cleans."""

vault = Table(
    "vault",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("uuid", Text),
    Column("kind", Text),  # s3 or local
    Column("location", Text),
    Column("prefix", Text),
    Column("endpoint", Text),
    Column("region", Text),
    Column("profile", Text),
    Column("deployment", Text),
    Column("created_at", Instant),
    Column("versions", Text),  # keep or purge: what a delete does in a versioned bucket
    Column("conditional", Boolean),  # a delete names the ETag that it means
    Column("probe", Json),
    Column("announced_round", BigInteger),  # the last round whose marker was written; 0: none
)
"""One row per vault of an instance; the probe is what its store was seen to do."""

control = Table(
    "control",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("reason", Text),
    Column("set_by", Text),
    Column("since", Instant),
    Column("first_reason", Text),  # as it was first set; reason and set_by are those of the last time
    Column("first_set_by", Text),
    Column("set_at", Instant),
)
"""One row per control that an operator set: a stop, a list entry or a window."""

setting = Table(
    "setting",
    METADATA,
    Column("instance", Text, primary_key=True),  # empty: all instances
    Column("key", Text, primary_key=True),
    Column("value", Text),
    Column("set_at", Instant),
    Column("set_by", Text),
    Column("reason", Text),
)
"""One row per setting that an operator changed for all workers, in all instances or in one."""

hold = Table(
    "hold",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("scope", Text),  # instance, mark or prefix
    Column("mark_kind", Text),
    Column("mark_id", Text),
    Column("vault", Text),
    Column("prefix", Text),
    Column("reason", Text),
    Column("placed_by", Text),
    Column("placed_at", Instant),
    Column("expires_at", Instant),
    Column("released_at", Instant),
)
"""One row per hold: an operator's order that blocks deletion of an instance, a mark or a prefix."""

token = Table(
    "token",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("scope", Text),
    Column("digest", Text),  # of the secret, in hex
    Column("note", Text),
    Column("created_at", Instant),
    Column("created_by", Text),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("revoked_by", Text),
    Column("last_used_at", Instant),
    Column("of_user", Text),  # the user whose password it was given for; null: made at the command line
)
"""One row per API token; only the digest of its secret is stored."""

api_user = Table(
    "api_user",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("hash", Text),  # of the password, by argon2id; empty: the user was removed
    Column("scope", Text),
    Column("created_at", Instant),
    Column("created_by", Text),
    Column("changed_at", Instant),
    Column("removed_at", Instant),
    Column("removed_by", Text),
)
"""One row per user who logs in with a password."""

answer = Table(
    "answer",
    METADATA,
    Column("who", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("request", Text),  # SHA-256 of its method, address and body
    Column("at", Instant),
    Column("status", Integer),
    Column("body", Text),
)
"""One row per request of the API that had an Idempotency-Key, for a day. ``status``: null while it is not known."""

login_failure = Table(
    "login_failure",
    METADATA,
    Column("source", Text, primary_key=True),  # an address, or a network of IPv6
    Column("slot", Text, primary_key=True),  # a few bits of a digest of the login name; empty: all names together
    Column("failures", BigInteger),
    Column("last_at", Instant),
)
"""One row per source and slot with recent failed logins."""

call = Table(
    "call",
    METADATA,
    Column("id", Serial, primary_key=True, autoincrement=False),  # without gaps
    Column("at", Instant),
    Column("who", Text),
    Column("source", Text),
    Column("role", Text),  # the database role that wrote the row; empty on SQLite
    Column("action", Text),
    Column("instance", Text),
    Column("subject", Text),
    Column("outcome", Text),
    Column("reason", Text),
    Column("begun_id", BigInteger),  # the first row of the same call; null: this is it
    Column("times", BigInteger),  # how many calls the row stands for
    Column("previous", Text),  # the hash of the row before
    Column("hash", Text),  # SHA-256 of all other columns
)
"""One row per event of a call: its beginning, its outcome, further calls like it. Rows form a chain; none changes."""

call_head = Table(
    "call_head",
    METADATA,
    Column("one", Integer, primary_key=True),  # always 1
    Column("id", BigInteger),
    Column("hash", Text),
    Column("trimmed_id", BigInteger),
    Column("trimmed_hash", Text),
)
"""One row: the newest call, and the newest of those that were deleted because of their age."""
