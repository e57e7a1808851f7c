"""PostgreSQL: the engine, the guard of deciding transactions, the schema and its migrations."""
