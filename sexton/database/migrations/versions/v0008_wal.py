"""Add Kafka topics, the regions that share them, replays and purges."""

from sexton.database.migrations.run_sql import run_sql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
