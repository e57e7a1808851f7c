"""The schema: every table with its columns, constraints and indexes, one file per capability."""

from sexton.database.tables.columns import METADATA, Instant, Json
from sexton.database.tables.registry import TABLES, Tables

__all__ = ["METADATA", "TABLES", "Instant", "Json", "Tables"]
