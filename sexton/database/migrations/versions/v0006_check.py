"""Whether metadata and objects agree: runs of the check, and what they found."""

from sexton.database.migrations.run_sql import run_sql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it."""
    run_sql(revision)
