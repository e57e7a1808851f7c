"""Alembic migrations; each revision is one SQL file per database."""
