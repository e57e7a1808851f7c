"""The database: engine, tables as queries see them, and the migrations that make them."""
