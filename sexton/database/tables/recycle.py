"""Tables of recycle rounds: plans, rounds, their ranges and counts, and the pace of deletes."""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json, Serial

plan = Table(
    "plan",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("created_at", Instant),
    Column("state", Text),
    Column("planned_by", Text),
    Column("policy_version", Text),
    Column("body", Json),
    Column("awaits", Text),  # why an operator must approve the plan before it expires
    Column("expires_at", Instant),
    Column("approved_by", Text),
    Column("approved_at", Instant),
    Column("rejected", Boolean),
)
"""One row per plan: what a round may delete, and who approved what exceeds a limit."""

round = Table(
    "round",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("run_id", Text),
    Column("plan", BigInteger),
    Column("state", Text),
    Column("started_at", Instant),
    Column("ended_at", Instant),
    Column("report", Json),
    Column("waiting", Text),  # why a running round holds no lease: paused or backing off
    Column("waiting_since", Instant),
)
"""One row per round: one run over one instance."""

batch = Table(
    "batch",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("round", BigInteger),
    Column("kind", Text),
    Column("number", BigInteger),
    Column("first", Text),
    Column("last", Text),
    Column("lease_epoch", BigInteger),
    Column("attempt", BigInteger),
    Column("claimed", BigInteger),
    Column("state", Text),
    Column("receipt", Json),
    # increased at each opening: of two workers with one epoch and attempt, the last to open writes
    Column("open_count", BigInteger),
    Column("limited_objects", BigInteger),  # objects claimed that count against the limits of 24 hours
    Column("claimed_at", Instant),
    Column("taken_over_at", Instant),  # by a newer attempt; a request of the older one may still be on its way
    Column("claim", BigInteger),  # the last claim of it, 0 before the first
)
"""One row per range: the marks of one kind that one activity claims and deletes."""

claim = Table(
    "claim",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("round", BigInteger),
    Column("key", Text),  # random, because a copied database reuses the ids of its original
)
"""One row per chunk of marks that was claimed; vaults' markers name the last one whose files may be deleted."""

tally = Table(
    "tally",
    METADATA,
    Column("round", BigInteger, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("vault", Text, primary_key=True),
    Column("listed", BigInteger),  # objects found, page by page, also those of marks that are kept then
    Column("claimed", BigInteger),
    Column("removed", BigInteger),
    Column("deleted", BigInteger),
    Column("absent", BigInteger),
    Column("hidden", BigInteger),
    Column("failed", BigInteger),
    Column("bytes_freed", BigInteger),
    Column("bytes_estimated", BigInteger),
    Column("size_unknown", BigInteger),  # objects deleted whose size neither the store nor the owner states
    Column("bytes_hidden", BigInteger),
)
"""One row per round, kind and vault: counts of the deletion so far."""

counter = Table(
    "counter",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("label", Text, primary_key=True),
    Column("value", BigInteger),
)
"""One row per counter that outlives its round, by instance, name and label."""

pace = Table(
    "pace",
    METADATA,
    Column("place", Text, primary_key=True),
    Column("keys_per_second", BigInteger),
    Column("ceiling", BigInteger),  # the rate at which the store last refused; 0: it never has
    Column("throttled_at", Instant),
    Column("updated_at", Instant),
)
"""One row per place: the rate at which its store accepts deletes, as all workers learned it."""

pace_share = Table(
    "pace_share",
    METADATA,
    Column("place", Text, primary_key=True),
    Column("worker", Text, primary_key=True),
    Column("seen_at", Instant),
    Column("requests", BigInteger),
    Column("throttled", BigInteger),
    Column("keys", BigInteger),
)
"""One row per place and worker: when the worker last reported, and what it has counted there."""

pace_cap = Table(
    "pace_cap",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("vault", Text, primary_key=True),
    Column("keys_per_second", BigInteger),
    Column("reason", Text),
    Column("set_by", Text),
    Column("since", Instant),
)
"""One row per vault with an operator's upper bound for the rate of deletes."""
