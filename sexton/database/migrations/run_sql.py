"""Execute one SQL file of a revision inside the migration's transaction."""

from pathlib import Path

from alembic import op


def run_sql(name: str) -> None:
    """Run ``versions/NAME.sql``, or print it in offline mode."""
    context = op.get_context()
    sql = (Path(__file__).parent / "versions" / f"{name}.sql").read_text("utf-8")
    if context.as_sql:
        context.impl.static_output(sql)
        return
    driver = op.get_bind().connection.driver_connection
    assert driver is not None
    driver.execute(sql)
