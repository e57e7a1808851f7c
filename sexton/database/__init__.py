"""One database, PostgreSQL or SQLite: engine, guard, tables, migrations."""
