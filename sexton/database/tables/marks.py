"""Tables of marks: what may be deleted, what was deleted, and the leases of the jobs that work on them."""

from sqlalchemy import BigInteger, Boolean, Column, Integer, LargeBinary, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json

mark = Table(
    "mark",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("keys", Json),
    Column("prefix", Text),
    Column("vault", Text),
    Column("state", Text),
    Column("marked_at", Instant),
    Column("expires_at", Instant),  # only of a prepared mark
    Column("extra_retention_seconds", Integer),
    Column("retention_starts_at", Instant),  # generated: expires_at, else marked_at and the extra retention
    Column("parent_kind", Text),
    Column("parent_id", Text),
    Column("bytes", BigInteger),
    Column("owner_txn", Text),
    Column("lease_epoch", BigInteger),
    Column("batch", BigInteger),
    Column("claimed_at", Instant),
    Column("first_pass_at", Instant),  # when the first pass of its prefix ended
    Column("objects_gone", BigInteger),
    Column("bytes_gone", BigInteger),
    Column("quarantined_reason", Text),
    Column("failures", BigInteger),
    Column("last_error", Text),
    Column("next_try_at", Instant),
    Column("lacking", Text),  # why its record stays although its known files are gone
    Column("absorbed", Boolean),  # deleted with the files of its parent
    Column("claimed_batch", BigInteger),  # the batch that claimed it; the second pass has another batch
    Column("etags", Json),  # of the objects that keys name; another object under such a key is not deleted
    Column("written", Json),  # when these were last written; one that was written again is not deleted
    Column("files_after", BigInteger),  # its files have higher numbers in its batch
    Column("last_file", BigInteger),  # and numbers up to this one
    Column("finished", Boolean),  # all files are gone; only the owner's records and this one are left
)
"""One row per mark: these objects may be deleted after their retention."""

mark_history = Table(
    "mark_history",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("parent_kind", Text),
    Column("parent_id", Text),
    Column("vault", Text),
    Column("prefix", Text),
    Column("keys", Json),
    Column("objects", BigInteger),
    Column("bytes", BigInteger),
    Column("marked_at", Instant),
    Column("claimed_at", Instant),
    Column("gone_at", Instant),
    Column("batch", BigInteger),
    Column("round", BigInteger),
    Column("discarded", Text),
    Column("absorbed", Boolean),  # deleted with the files of its parent
)
"""One row per mark whose files are confirmed gone; ids are never used again."""

file_list = Table(
    "file_list",
    METADATA,
    Column("batch", BigInteger, primary_key=True),
    Column("last", BigInteger, primary_key=True),  # number of its last file in the batch
    Column("first", BigInteger),
    Column("instance", Text),
    Column("first_key", Text),
    Column("last_key", Text),
    Column("files", LargeBinary),  # never changed: marks, vaults, keys, sizes, ETags (marks/file_list.py)
    Column("results", LargeBinary),  # the outcome of each file
)
"""One row per list of up to 5,000 files that a batch deletes, with the outcome of each once it was tried."""

lease = Table(
    "lease",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("job", Text, primary_key=True),
    Column("state", Text),
    Column("owner", Text),
    Column("epoch", BigInteger),  # increased each time the lease is acquired
    Column("acquired_at", Instant),
    Column("expires_at", Instant),
)
"""One row per instance and job: which worker does this job now."""
