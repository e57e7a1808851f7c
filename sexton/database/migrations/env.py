"""Run the migrations on the ``Database`` in the config's attributes, or print them for a dialect."""

from typing import Any

from alembic import context

from sexton.database.engine import Database
from sexton.database.schema import SCHEMA_LOCK, VERSION_TABLE, lock_out_others

config = context.config


def _options(dialect: str) -> dict[str, Any]:
    table, schema = VERSION_TABLE[dialect]
    return {"version_table": table, "version_table_schema": schema}


if context.is_offline_mode():
    dialect = config.attributes["dialect"]
    if dialect == "postgresql":
        print("CREATE SCHEMA IF NOT EXISTS sexton;\n", file=config.output_buffer)
    context.configure(dialect_name=dialect, **_options(dialect))
    with context.begin_transaction():
        context.run_migrations()
else:
    database: Database = config.attributes["database"]
    with database.write() as connection:
        if database.dialect == "postgresql":
            lock_out_others(connection, SCHEMA_LOCK)
        context.configure(connection=connection, transactional_ddl=True, **_options(database.dialect))
        context.run_migrations()
