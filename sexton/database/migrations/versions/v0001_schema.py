"""Create the schema."""

from pathlib import Path

from alembic import op

from sexton.database.tables import METADATA


def run_sql(name: str) -> None:
    """Run ``NAME.sql``, or print it in offline mode."""
    context = op.get_context()
    sql = Path(__file__).with_name(f"{name}.sql").read_text("utf-8")
    if context.as_sql:
        context.impl.static_output(sql)
        return
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(sql)


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
