"""Read how many bytes Sexton's tables take on disk, by the database's own sizes of files: no table is scanned."""

import logging
from collections.abc import Mapping
from dataclasses import fields

from sqlalchemy.exc import DBAPIError

from sexton.database.engine import AWAY, Database, first_line

log = logging.getLogger(__name__)

WHOLE_DATABASE = "all"
"""The only table on SQLite: to know the size of one, SQLite would have to read every page of the file."""
LOCK_MS = 500
"""How long the sizes wait for a table that is locked exclusively, for example by VACUUM FULL."""
# The sizes need no right to any table: every role may read pg_class and call pg_total_relation_size.
_POSTGRESQL = (
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relnamespace = 'sexton'::regnamespace AND relname = ANY(%(tables)s::name[])"
)
_SQLITE = f"SELECT '{WHOLE_DATABASE}', page_count * page_size FROM pragma_page_count, pragma_page_size"


def table_bytes(db: Database) -> Mapping[str, int] | None:
    """Return the bytes of each table with its indexes and TOAST; on SQLite those of the whole database as ``all``.

    Return None where the database does not answer. The transaction is its own, so the other figures are read anyway.
    """
    try:
        with db.read() as c:
            if db.dialect == "sqlite":
                rows = c.exec_driver_sql(_SQLITE).all()
            else:
                c.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
                rows = c.exec_driver_sql(_POSTGRESQL, {"tables": [table.name for table in fields(db.t)]}).all()
    except AWAY as e:
        cause = first_line(e) if isinstance(e, DBAPIError) else "every connection is in use"
        log.warning("the sizes of Sexton's tables are unknown for this scrape: %s", cause)
        return None
    return {name: size for name, size in sorted(map(tuple, rows)) if size is not None}
