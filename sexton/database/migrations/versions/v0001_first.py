"""Instances, vaults, marks and everything a first deletion needs."""

from sexton.database.migrations.run_sql import run_sql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the schema."""
    run_sql(revision)
