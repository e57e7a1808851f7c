"""The tables as queries see them, one file per capability: every query names a table through ``Tables``."""

from sexton.database.tables.columns import Instant, Json
from sexton.database.tables.registry import Tables, build

__all__ = ["Instant", "Json", "Tables", "build"]
