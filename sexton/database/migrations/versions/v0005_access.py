"""Add API tokens and the call log."""

from sexton.database.migrations.run_sql import run_sql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
