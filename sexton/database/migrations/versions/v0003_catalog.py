"""Add owners, fencing, approvals, limits, pace, and the probe of a vault's store."""

from sexton.database.migrations.run_sql import run_sql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
