"""Add sync protections and the owner's watermark."""

from sexton.database.migrations.run_sql import run_sql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the SQL of this revision."""
    run_sql(revision)
