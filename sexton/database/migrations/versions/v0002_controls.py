"""Add controls, holds, schedule slots, counters of rounds, and discarded marks."""

from sexton.database.migrations.run_sql import run_sql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
