"""Add users with passwords and their short-lived tokens."""

from sexton.database.migrations.run_sql import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
