"""Add binlogs, their consumers, the journal, backends and replicas."""

from sexton.database.migrations.run_sql import run_sql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
