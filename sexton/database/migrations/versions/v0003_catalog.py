"""Owners, fencing, approvals, limits, pace, and what a vault's store really does."""

from sexton.database.migrations.run_sql import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    run_sql(revision)
