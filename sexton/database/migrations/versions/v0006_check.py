"""Add runs of the check and their findings."""

from sexton.database.migrations.run_sql import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
