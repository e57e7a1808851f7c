"""Add the key pattern of an instance, and more kinds of findings."""

from sexton.database.migrations.run_sql import run_sql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
