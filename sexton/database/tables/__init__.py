"""The schema: every table with its columns, constraints and indexes, one file per capability."""

from sqlalchemy import Table

from sexton.database.tables import (  # noqa: F401  importing a file defines its tables in METADATA
    check,
    deployment,
    marks,
    operators,
    protection,
    recycle,
    replication,
    wal,
)
from sexton.database.tables.columns import METADATA, Instant

__all__ = ["METADATA", "TABLES", "Instant", "Tables"]


class Tables:
    """Every table by its name: ``TABLES.mark``. The file of each capability documents what a row is."""

    def __getattr__(self, name: str) -> Table:
        """Return the table of this name."""
        try:
            return METADATA.tables[f"{METADATA.schema}.{name}"]
        except KeyError:
            raise AttributeError(f"there is no table {name}") from None


TABLES = Tables()
