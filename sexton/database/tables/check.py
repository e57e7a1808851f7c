"""Tables of consistency checks: runs, and what they found."""

from sqlalchemy import BigInteger, Column, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json, Serial

check_run = Table(
    "check_run",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("run", Text),
    Column("state", Text),
    Column("cutoff", Instant),
    Column("ended_at", Instant),
    Column("evidence", Json),  # what the run saw so far
    Column("missing_inputs", Json),  # why the run proves nothing; set at its end
    Column("asked_by", Text),
    Column("progress", Json),  # parts of a long run that are done and need not be repeated
    Column("open_counts", Json),  # finding type → open findings at its end, and confirmed ones
)
"""One row per run of a check: the comparison of an instance's records and objects."""

finding = Table(
    "finding",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("type", Text),
    Column("vault", Text),
    Column("key", Text),
    Column("expected", BigInteger),
    Column("size", BigInteger),
    Column("etag", Text),
    Column("written", Text),  # when the object was last written, by its store's clock
    Column("record", Text),
    Column("state", Text),
    Column("first_seen", Instant),
    Column("seen_in", BigInteger),  # the last run that saw it
    Column("proven_at", Instant),  # the cutoff of the first run of an unbroken row of whole runs that saw it
    Column("confirmed_at", Instant),
    Column("accepted_by", Text),
    Column("detail", Text),
    Column("proven_in", BigInteger),  # the last whole run that saw it
    Column("mark", Text),  # id of the mark that a repair made of it
)
"""One row per difference between records and objects that a check found."""
