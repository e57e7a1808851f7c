"""Tables of marks: what may be deleted, what was deleted, and the leases of the jobs that work on them.

The owner uses one of them, ``mark``, and the functions in ``migrations/versions/0001.functions.sql``.
"""

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Computed, ForeignKey, PrimaryKeyConstraint

from sexton.database.tables.columns import (
    bigint,
    boolean,
    bytea,
    index,
    instant,
    integer,
    jsonb,
    table,
    text,
    word,
)

mark = table(
    "mark",
    word("instance"),
    word("kind"),
    word("id"),
    # The files come early: a search for the beginning of a key reads this far into every row.
    jsonb("keys", null=True),
    word("prefix", null=True),
    word("vault", null=True),
    text("state", default="MARKED"),
    instant("marked_at", default=sa.text("date_trunc('milliseconds', clock_timestamp())")),  # docs/adr/0002
    instant("expires_at", null=True),  # only of a prepared mark
    integer("extra_retention_seconds", default=0),  # before the retention of its kind starts (docs/adr/0040)
    # In UTC, because timestamptz + interval depends on the session's time zone and so cannot be stored.
    instant(
        "retention_starts_at",
        Computed(
            "coalesce(expires_at,"
            " (marked_at AT TIME ZONE 'UTC' + extra_retention_seconds * interval '1 second') AT TIME ZONE 'UTC')",
            persisted=True,
        ),
    ),
    word("parent_kind", null=True),
    word("parent_id", null=True),
    bigint("bytes", default=0),
    text("owner_txn", null=True),
    bigint("lease_epoch", null=True),
    bigint("batch", null=True),
    instant("claimed_at", null=True),
    instant("first_pass_at", null=True),  # when the first pass of its prefix ended
    bigint("objects_gone", default=0),
    bigint("bytes_gone", default=0),
    text("quarantined_reason", null=True),
    integer("failures", default=0),
    text("last_error", null=True),
    instant("next_try_at", null=True),
    text("lacking", null=True),  # why its record stays although its known files are gone
    boolean("absorbed", default=False),  # deleted with the files of its parent
    bigint("claimed_batch", null=True),  # the batch that claimed it; the second pass has another batch
    jsonb("etags", null=True),  # of the objects that keys name; another object under such a key is not deleted
    jsonb("written", null=True),  # when these were last written; one that was written again is not deleted
    bigint("files_after", null=True),  # its files have higher numbers in its batch
    bigint("last_file", null=True),  # and numbers up to this one
    boolean("finished", default=False),  # all files are gone; only the owner's records and this one are left
    # id comes first (docs/adr/0007): with instance and kind first, a planner without statistics reads every mark of
    # the kind and filters.
    PrimaryKeyConstraint("id", "kind", "instance"),
    CheckConstraint("kind ~ '^[a-z][a-z0-9_-]{0,31}$'", name="mark_kind_is_a_name"),
    CheckConstraint("id ~ '^[A-Za-z0-9._-]{1,128}$'", name="mark_id_is_text_of_128"),
    CheckConstraint("state IN ('MARKED', 'FENCED', 'CLAIMED')", name="mark_state_is_known"),
    CheckConstraint("prefix IS NULL OR keys IS NULL", name="mark_names_prefix_or_keys"),
    CheckConstraint(
        "prefix ~ '[^A-Za-z0-9.-]$' AND ascii(right(prefix, 1)) < 128", name="mark_prefix_ends_with_a_separator"
    ),
    CheckConstraint(
        "left(prefix, 1) <> '/' AND left(prefix, 8) <> '_sexton/' AND strpos(prefix, '//') = 0"
        " AND ('/' || prefix || '/') !~ '/[.][.]?/'",
        name="mark_prefix_stays_inside",
    ),
    CheckConstraint(
        "keys IS NULL OR (jsonb_typeof(keys) = 'array' AND jsonb_array_length(keys) BETWEEN 1 AND 1000)",
        name="mark_keys_are_1_to_1000",
    ),
    CheckConstraint("bytes BETWEEN 0 AND 1125899906842624", name="mark_bytes_are_0_to_1_pib"),
    # A worker reads many marks at once. mark_inserted limits each key, also to the length of an S3 key.
    CheckConstraint(
        "octet_length(vault) <= 1024 AND octet_length(prefix) <= 1024 AND octet_length(owner_txn) <= 1024"
        " AND octet_length(parent_kind) <= 1024 AND octet_length(parent_id) <= 1024",
        name="mark_texts_have_at_most_1024_bytes",
    ),
    # Cursors are milliseconds: a scan would return a mark with a finer instant after itself, again and again.
    CheckConstraint("date_trunc('milliseconds', expires_at) = expires_at", name="mark_expires_at_a_millisecond"),
    CheckConstraint(
        "extra_retention_seconds BETWEEN 0 AND 315360000"
        " AND (extra_retention_seconds = 0 OR (kind <> 'prepared' AND expires_at IS NULL))",
        name="mark_extra_retention_is_0_to_10_years",
    ),
    CheckConstraint("(parent_kind IS NULL) = (parent_id IS NULL)", name="mark_parent_is_whole"),
    index("mark_claimed", "instance", "batch", "last_file", "kind", "id", where="state = 'CLAIMED'"),
    index("mark_late", "instance", "kind", "id", where="state = 'CLAIMED' AND first_pass_at IS NOT NULL"),
    # parent_id comes first, as id does in the key: else a list of parents is compared with each mark that has a parent.
    index("mark_children", "parent_id", "parent_kind", "instance", where="parent_id IS NOT NULL"),
    index("mark_quarantined", "instance", "quarantined_reason", where="quarantined_reason IS NOT NULL"),
    index("mark_fenced", "instance", where="state = 'FENCED'"),
    # A fenced mark that a keeper retained is still due.
    index(
        *("mark_due", "instance", "kind", "retention_starts_at", "id"),
        where="state <> 'CLAIMED' AND quarantined_reason IS NULL",
    ),
    # sexton why finds a key with these. It reads each mark with several keys: an index of all keys would be larger than
    # the marks, and every claim would write it again. Not USING hash: many marks with the same key would take
    # quadratic time to insert.
    index("mark_prefix", "prefix", where="prefix IS NOT NULL"),
    # A claim of a prefix looks for loads below it, in byte order. Without the last condition a planner without
    # statistics would use this index for a commit, and read all loads of the instance.
    index(
        *("mark_prepared", "instance", "prefix"),
        where="kind = 'prepared' AND state <> 'CLAIMED' AND prefix IS NOT NULL",
    ),
    index("mark_one_key", "hashtext(keys ->> 0)", where="jsonb_array_length(keys) = 1"),
    index("mark_more_keys", "instance", where="jsonb_array_length(keys) > 1"),
    # The database sets state and times.
    owners_may=(
        "SELECT, INSERT (instance, kind, id, parent_kind, parent_id, vault, prefix, keys, bytes, owner_txn, "
        "extra_retention_seconds)"
    ),
)
"""One row per mark: these objects may be deleted after their retention."""

mark_history = table(
    "mark_history",
    word("instance"),
    word("kind"),
    word("id"),
    word("parent_kind", null=True),
    word("parent_id", null=True),
    word("vault", null=True),
    word("prefix", null=True),
    jsonb("keys", null=True),
    bigint("objects"),
    bigint("bytes"),
    instant("marked_at"),
    instant("claimed_at"),
    instant("gone_at"),
    bigint("batch"),
    bigint("round"),
    text("owner_txn", null=True),
    text("discarded", null=True),  # why an operator discarded the mark; null: not discarded
    boolean("absorbed", default=False),  # deleted with the files of its parent
    PrimaryKeyConstraint("id", "kind", "instance"),
    index("mark_history_gone", "instance", "gone_at"),
    index("mark_history_children", "parent_id", "parent_kind", "instance", where="parent_id IS NOT NULL"),
    index("mark_history_prefix", "prefix", where="prefix IS NOT NULL"),
    index("mark_history_one_key", "hashtext(keys ->> 0)", where="jsonb_array_length(keys) = 1"),
    index("mark_history_more_keys", "instance", where="jsonb_array_length(keys) > 1"),
    owners_may="SELECT",
)
"""One row per mark whose files are confirmed gone, or that an operator discarded; ids are never used again."""

commit_under_way = table(
    "commit_under_way",
    word("instance", ForeignKey("instance.id"), key=True),
    word("vault", key=True),
    word("key", key=True),
    text("commit", key=True),
    instant("until"),  # its names end then at the latest
    bigint("stored_by"),  # the transaction that stored it: its marks are looked at in a later one
    index("commit_under_way_of", "instance", "commit"),
    index("commit_under_way_until", "until"),
)
"""One row per object that a commit under way names: no round claims it."""

file_list = table(
    "file_list",
    bigint("batch", key=True),
    bigint("last", key=True),  # number of its last file in the batch
    bigint("first"),
    word("instance"),
    word("first_key"),
    word("last_key"),
    # Both are compressed JSON (sexton/marks/file_list.py).
    bytea("files"),  # never changed: marks, vaults, keys, sizes, ETags
    bytea("results"),  # the outcome of each file, stored with every page
    index("file_list_of_instance", "instance", "batch", "last"),
)
"""One row per list of up to 5,000 files that a batch deletes, with the outcome of each once it was tried."""

lease = table(
    "lease",
    text("instance", key=True),
    text("job", key=True),
    text("state", CheckConstraint("state IN ('IDLE', 'BUSY')"), default="IDLE"),
    text("owner", default=""),
    bigint("epoch", default=0),  # increased each time the lease is acquired
    instant("acquired_at", null=True),
    instant("expires_at", null=True),
)
"""One row per instance and job: which worker does this job now."""
