"""Run the migrations on the ``Database`` in the config's attributes, or print them."""

from alembic import context

from sexton.database.engine import Database
from sexton.database.schema import SCHEMA_LOCK, lock_out_others

config = context.config

if context.is_offline_mode():
    print("CREATE SCHEMA IF NOT EXISTS sexton;\n", file=config.output_buffer)
    context.configure(dialect_name="postgresql", version_table_schema="sexton")
    with context.begin_transaction():
        context.run_migrations()
else:
    database: Database = config.attributes["database"]
    with database.write() as connection:
        lock_out_others(connection, SCHEMA_LOCK)
        context.configure(connection=connection, transactional_ddl=True, version_table_schema="sexton")
        context.run_migrations()
