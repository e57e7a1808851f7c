"""Tables of the deployment itself: its clock, and the guard of every deciding transaction."""

from sqlalchemy import BigInteger, Boolean, Column, Table, Text

from sexton.database.tables.columns import METADATA

clock = Table(
    "clock",
    METADATA,
    Column("one", Boolean, primary_key=True),
    Column("deployment", Text),
    Column("offset_seconds", BigInteger),  # only ever increased
)
"""One row: the deployment that owns this database, and the offset of its clock (demo and test deployments only)."""

instance_guard = Table(
    "instance_guard",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("seq", BigInteger),
)
"""One row per instance, and one (``*``) for all of them: every deciding transaction updates it first."""
