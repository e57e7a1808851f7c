"""Tables of the operators: the registry of instances and vaults, controls, settings, holds, access, the call log."""

from sqlalchemy import CheckConstraint, Column, ForeignKey, UniqueConstraint
from sqlalchemy.dialects.postgresql import OID

from sexton.database.tables.columns import (
    NOW,
    bigint,
    boolean,
    index,
    instant,
    integer,
    jsonb,
    serial,
    table,
    text,
    word,
)

instance = table(
    "instance",
    text("id", CheckConstraint("id ~ '^[a-z0-9][a-z0-9_-]{0,62}$'"), key=True),
    text("mode", CheckConstraint("mode IN ('observe', 'enabled')"), default="observe"),
    instant("created_at", default=NOW),
    instant("enabled_at", null=True),
    instant("turn_at", null=True),  # when its current schedule slot began
    instant("retry_at", null=True),
    integer("failures", default=0),
    instant("last_success_at", null=True),
    text("owner", default="sql"),  # which installed owner answers for its marks; never changed
    jsonb("owner_options", default="{}"),  # what that owner needs to know of it; never changed
    boolean("knows_live", default=False),  # the owner knows which objects are live, without a view
    text("owner_cursor", default=""),  # up to where the owner's list of garbage was read
    # either ids may contain _, or prefixes may end with it: 12_ is also how 12_3 begins; never changed
    boolean("underscore_in_ids", default=False),
    jsonb("retentions", null=True),  # kind → seconds, as an operator agreed to them
    # how far the owner has come, in its own numbers (not a time); a finished protection waits until it is past
    bigint("watermark", null=True),
    instant("watermark_at", null=True),
    # regular expression that all keys of the owner match; a key that matches and that no record names is an orphan
    text("key_pattern", default=""),
    text("live_view", default=""),  # SCHEMA.VIEW shows which objects are live; 'none': no view does; '': not named yet
    bigint("check_base", default=0),  # a check is not compared with the check of this number and those before it
)
"""One row per instance: a database or lake that Sexton cleans. Its owner decides what its marks mean."""

instance_role = table(
    "instance_role",
    word("instance", ForeignKey("instance.id", ondelete="CASCADE"), key=True),
    word("role", key=True),
    # a role that is created again under this name has another one, and no grant
    Column("role_oid", OID, nullable=False),
)
"""One row per PostgreSQL role and instance whose marks the role may read, make, commit and undrop."""

vault = table(
    "vault",
    text("instance", ForeignKey("instance.id"), key=True),
    text("name", CheckConstraint("name ~ '^[a-z0-9][a-z0-9_-]{0,62}$'"), key=True),
    text("uuid"),
    text("kind"),  # a version of Sexton opens only vaults of the kinds that it knows
    text("location"),
    text("prefix", default=""),
    text("endpoint", default=""),
    text("region", default=""),
    text("profile", default=""),
    text("deployment"),
    instant("created_at", default=NOW),
    # what a delete does in a versioned bucket
    text("versions", CheckConstraint("versions IN ('keep', 'purge')"), default="keep"),
    boolean("conditional", default=False),  # a delete names the ETag that it means
    text("inventory", default=""),  # where its store writes inventories; empty: checks list
    jsonb("probe", null=True),  # what its store was seen to do
    bigint("announced_round", default=0),  # the last round whose marker was written; 0: none
    UniqueConstraint("uuid"),
)
"""One row per vault of an instance."""

control = table(
    "control",
    word("kind", CheckConstraint("kind IN ('stop', 'blacklist', 'whitelist', 'vault_whitelist', 'window')"), key=True),
    word("name", CheckConstraint("length(name) BETWEEN 1 AND 200"), key=True),
    text("reason", default=""),
    text("set_by", default=""),
    instant("since", default=NOW),  # when it was first set
    text("first_reason", default=""),  # as it was first set; reason and set_by are those of the last time
    text("first_set_by", default=""),
    instant("set_at", null=True),  # when it was last set
)
"""One row per control that an operator set: a stop, a list entry or a window."""

setting = table(
    "setting",
    word("instance", key=True, default=""),  # empty: all instances
    word("key", CheckConstraint("length(key) BETWEEN 1 AND 100"), key=True),
    text("value", CheckConstraint("length(value) BETWEEN 1 AND 100")),
    instant("set_at", default=NOW),
    text("set_by", default=""),
    text("reason", default=""),
)
"""One row per setting that an operator changed for all workers, in all instances or in one."""

hold = table(
    "hold",
    serial("id"),
    word("instance"),
    text("scope", CheckConstraint("scope IN ('instance', 'mark', 'prefix')")),
    word("mark_kind", null=True),
    word("mark_id", null=True),
    word("vault", null=True),
    word("prefix", null=True),
    text("reason", CheckConstraint("length(reason) BETWEEN 1 AND 500")),
    text("placed_by"),
    instant("placed_at"),
    instant("expires_at"),
    instant("released_at", null=True),
    CheckConstraint(
        "(scope = 'mark') = (mark_kind IS NOT NULL) AND (scope = 'mark') = (mark_id IS NOT NULL)"
        " AND (scope = 'prefix') = (vault IS NOT NULL) AND (scope = 'prefix') = (prefix IS NOT NULL)",
        name="hold_names_what_its_scope_needs",
    ),
    index("hold_of_instance", "instance", "expires_at", where="released_at IS NULL"),
)
"""One row per hold: an operator's order that blocks deletion of an instance, a mark or a prefix."""

token = table(
    "token",
    word("id", CheckConstraint("id ~ '^[0-9a-f]{12}$'"), key=True),
    text("scope"),
    text("digest", CheckConstraint("length(digest) = 64")),  # of the secret, in hex; the secret itself is nowhere
    text("note", default=""),
    instant("created_at"),
    text("created_by"),
    instant("expires_at"),
    instant("revoked_at", null=True),
    text("revoked_by", default=""),
    instant("last_used_at", null=True),  # to about a minute
)
"""One row per API token; only the digest of its secret is stored."""

call = table(
    "call",
    serial("id"),
    instant("at"),
    text("who"),
    text("source"),
    text("role", default=""),  # the database role that wrote the row
    text("action"),
    text("instance", default=""),
    text("subject", default=""),
    text("outcome"),
    text("reason", default=""),
    bigint("begun_id", null=True),  # the first row of the same call; null: this is it
    index("call_of", "instance", "id"),
    index("call_begun", "begun_id", where="begun_id IS NOT NULL"),
)
"""Two rows per call, its beginning and its outcome, or one per refusal. None changes."""
