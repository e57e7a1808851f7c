"""Tables of the deployment itself: its clock, the guard of every deciding transaction, and its workers."""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json

clock = Table(
    "clock",
    METADATA,
    Column("one", Boolean, primary_key=True),
    Column("deployment", Text),
    Column("offset_seconds", BigInteger),  # only ever increased
    Column("works_with", Text),  # the oldest version of the schema whose programs may use this database
)
"""One row: the deployment that owns this database, and the offset of its clock (demo and test deployments only)."""

instance_guard = Table(
    "instance_guard",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("seq", BigInteger),
)
"""One row per instance, and one (``*``) for all of them: every deciding transaction updates it first."""

spark_worker = Table(
    "spark_worker",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("seen_at", Instant),
    Column("slots", BigInteger),
    Column("busy", BigInteger),
)
"""One row per Spark worker: how many activities it takes at once, how many it runs, and when it last reported."""

worker_presence = Table(
    "worker_presence",
    METADATA,
    Column("worker", Text, primary_key=True),
    Column("role", Text),  # control or spark
    Column("build", Text),
    Column("started_at", Instant),
    Column("seen_at", Instant),
    Column("metrics", Text),
    Column("settings", Json),  # key → value, of those that the database may change
)
"""One row per worker of this database: its role and build, and the settings of its environment and file."""
