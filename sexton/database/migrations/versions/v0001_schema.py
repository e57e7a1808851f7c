"""Create the schema."""

from alembic import op

from sexton.database.migrations.run_sql import run_sql
from sexton.database.tables import METADATA

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the clock, the tables, and what guards them; or print all of it."""
    run_sql("0001.clock")
    for table in METADATA.sorted_tables:
        op.get_context().impl.create_table(table)  # with its indexes; unlike create_all it can print, too
    run_sql("0001.functions")
