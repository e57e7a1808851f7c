"""Users with passwords, and the short-lived tokens they ask for."""

from sexton.database.migrations.run_sql import run_sql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it."""
    run_sql(revision)
