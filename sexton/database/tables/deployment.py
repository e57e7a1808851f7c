"""Tables of the deployment itself: its clock, the guard of every deciding transaction, and its workers."""

from sqlalchemy import CheckConstraint

from sexton.database.tables.columns import bigint, boolean, instant, integer, jsonb, table, text, word

clock = table(
    "clock",
    boolean("one", CheckConstraint("one"), key=True, default=True),
    text("deployment"),
    bigint("offset_seconds", CheckConstraint("offset_seconds >= 0"), default=0),  # only ever increased
    # the schedule as a worker last saw it in Temporal: active, or paused: NOTE; empty: none was applied
    text("schedule", default=""),
    text("works_with", default="0001"),  # the oldest version of the schema whose programs may use this database
    CheckConstraint("offset_seconds = 0 OR deployment ~ '^(demo|test)-'", name="clock_moves_only_in_demo_and_test"),
)
"""One row: the deployment that owns this database, and the offset of its clock (demo and test deployments only)."""

instance_guard = table("instance_guard", text("instance", key=True), bigint("seq", default=0))
"""One row per instance, and one (``*``) for all of them: every deciding transaction updates it first."""

worker_presence = table(
    "worker_presence",
    word("worker", key=True),
    text("role"),  # control or spark
    text("build", default=""),
    instant("started_at"),
    instant("seen_at"),
    text("metrics", default=""),  # where it answers GET /metrics; empty: nowhere
    jsonb("settings"),  # key → value, of those that the database may change
    bigint("slots", default=0),  # of a Spark worker: how many activities it takes at once
    bigint("busy", default=0),  # and how many it runs
    boolean("reaches_temporal", default=True),  # whether Temporal answered a control worker just now
)
"""One row per worker of this database: its role and build, the settings of its environment and file, and its slots."""

notice = table(
    "notice",
    word("instance", key=True),  # or that all are meant
    word("key", key=True),  # what stays the same of the problem while its numbers and texts change
    integer("severity"),
    jsonb("problem"),
    instant("first_seen_at"),
    instant("seen_at"),
    instant("gone_at", null=True),
    instant("posted_at", null=True),  # when the webhook accepted it; null: it knows of no such problem
    instant("tried_at", null=True),
    text("error", default=""),  # of the last request; empty: it was accepted
)
"""One row per problem that is posted to a webhook, until the webhook knows that it is gone."""
