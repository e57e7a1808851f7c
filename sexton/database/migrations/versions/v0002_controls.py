"""Stops and lists, holds, turns, counters of rounds, and what an operator discarded."""

from sexton.database.migrations.run_sql import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    run_sql(revision)
