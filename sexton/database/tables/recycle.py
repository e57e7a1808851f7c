"""Tables of recycle rounds: plans, rounds, their ranges and counts, and the pace of deletes."""

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint

from sexton.database.tables.columns import bigint, boolean, index, instant, integer, jsonb, serial, table, text, word

plan = table(
    "plan",
    serial("id"),
    text("instance"),
    instant("created_at"),
    text("state", CheckConstraint("state IN ('PLANNED', 'APPLYING', 'APPLIED')"), default="PLANNED"),
    text("planned_by"),
    text("policy_version"),
    jsonb("body"),
    # why an operator must apply the plan before it expires; of a rejected plan: who rejected it, and why
    text("awaits", null=True),
    instant("expires_at", null=True),
    text("approved_by", null=True),
    instant("approved_at", null=True),
    boolean("rejected", default=False),
    index("plan_of_instance", "instance", "id"),
    index("plan_open", "instance", "id", where="awaits IS NOT NULL"),
    index("plan_answered", "instance", "approved_at", where="approved_at IS NOT NULL"),
)
"""One row per plan: what a round may delete, and who approved what exceeds a limit."""

round = table(
    "round",
    serial("id"),
    text("instance"),
    text("run_id"),
    bigint("plan", ForeignKey("plan.id"), null=True),
    text("state", CheckConstraint("state IN ('RUNNING', 'SUCCEEDED', 'FAILED')"), default="RUNNING"),
    instant("started_at"),
    instant("ended_at", null=True),
    jsonb("report", null=True),
    text("waiting", null=True),  # why a running round holds no lease
    text("wait", default=""),  # meanwhile: PAUSED, BACKING_OFF, or empty
    instant("waiting_since", null=True),
    UniqueConstraint("run_id"),
    index("round_of_instance", "instance", "id"),
    index("round_of_plan", "plan", where="plan IS NOT NULL"),
    index("round_waiting", "instance", where="waiting IS NOT NULL"),
    index("round_running", "id", "instance", where="state = 'RUNNING'"),
)
"""One row per round: one run over one instance."""

batch = table(
    "batch",
    serial("id"),
    text("instance"),
    bigint("round", ForeignKey("round.id")),
    text("kind"),
    integer("number"),
    text("first"),
    text("last"),
    bigint("lease_epoch"),
    integer("attempt"),
    integer("claimed", default=0),
    text("state", CheckConstraint("state IN ('OPEN', 'DONE')"), default="OPEN"),
    jsonb("receipt", null=True),
    # A run that was reset starts its attempts at 1 again: of two workers with one epoch and attempt, the last to open
    # writes.
    integer("open_count", default=0),
    bigint("limited_objects", default=0),  # objects claimed that count against the limits of 24 hours
    instant("claimed_at", null=True),  # when the last of limited_objects were claimed
    instant("taken_over_at", null=True),  # by a newer attempt; a request of the older one may still be on its way
    bigint("claim", default=0),  # the last claim of it; 0: none
    bigint("adopted_by", default=0),  # the last later round that counted what is left of it; 0: none
    UniqueConstraint("round", "kind", "number"),
    index("batch_open", "instance", where="state = 'OPEN'"),
    index("batch_taken_over", "instance", "taken_over_at", where="taken_over_at IS NOT NULL"),
    index("batch_limited", "instance", "claimed_at", where="limited_objects > 0"),
)
"""One row per range: the marks of one kind that one activity claims and deletes."""

claim = table(
    "claim",
    serial("id"),
    bigint("round", ForeignKey("round.id", ondelete="CASCADE")),
    text("key", default=sa.text("gen_random_uuid()::text")),  # a copied database reuses the ids of its original
    index("claim_of_round", "round", "id"),
)
"""One row per beginning of a round, and per chunk of marks that it claimed. Vaults' markers name the last one whose
files may be deleted."""

tally = table(
    "tally",
    bigint("round", ForeignKey("round.id"), key=True),
    text("kind", key=True),
    text("vault", key=True),
    bigint("listed", default=0),  # objects found, page by page, also those of marks that are kept then
    bigint("adopted", default=0),  # objects that earlier rounds had listed, claimed and not deleted
    bigint("claimed", default=0),
    bigint("removed", default=0),
    bigint("deleted", default=0),
    bigint("absent", default=0),
    bigint("hidden", default=0),
    bigint("failed", default=0),
    bigint("bytes_freed", default=0),
    bigint("bytes_estimated", default=0),
    bigint("size_unknown", default=0),  # objects deleted whose size neither the store nor the owner states
    bigint("bytes_hidden", default=0),
)
"""One row per round, kind and vault: counts of the deletion so far."""

counter = table(
    "counter", word("instance", key=True), word("name", key=True), word("label", key=True), bigint("value", default=0)
)
"""One row per counter that outlives its round, by instance, name and label."""

pace = table(
    "pace",
    word("place", key=True),
    bigint("keys_per_second"),
    bigint("ceiling", default=0),  # the rate at which the store last refused; 0: it never has
    instant("throttled_at", null=True),
    instant("updated_at"),
)
"""One row per place (a partition of a store): the rate at which it accepts deletes, as all workers learned it."""

pace_share = table(
    "pace_share",
    word("place", key=True),
    word("worker", key=True),
    instant("seen_at"),
    bigint("requests", default=0),
    bigint("throttled", default=0),
    bigint("keys", default=0),
)
"""One row per place and worker: when the worker last reported, and what it has counted there."""

pace_cap = table(
    "pace_cap",
    word("instance", key=True),
    word("vault", key=True),
    bigint("keys_per_second", CheckConstraint("keys_per_second > 0")),
    text("reason", default=""),
    text("set_by", default=""),
    instant("since"),
)
"""One row per vault with an operator's upper bound for the rate of deletes."""
