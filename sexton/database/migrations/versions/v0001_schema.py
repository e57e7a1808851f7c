"""Create the schema."""

from sexton.database.migrations.run_sql import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
