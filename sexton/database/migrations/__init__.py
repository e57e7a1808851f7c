"""Alembic migrations: the first revision creates the tables, and runs the SQL files with what guards them."""
