"""Read how many bytes Sexton's tables take on disk, by the database's own sizes of files: no table is scanned."""

import logging
from collections.abc import Mapping
from dataclasses import fields

from sqlalchemy.exc import DBAPIError

from sexton.database.engine import AWAY, Database, first_line

log = logging.getLogger(__name__)

LOCK_MS = 500
"""How long the sizes wait for a table that is locked exclusively, for example by VACUUM FULL."""
# The sizes need no right to any table: every role may read pg_class and call pg_total_relation_size.
_SIZES = (
    "SELECT relname, pg_total_relation_size(oid) FROM pg_class"
    " WHERE relnamespace = 'sexton'::regnamespace AND relname = ANY(%(tables)s::name[])"
)


def table_bytes(db: Database) -> Mapping[str, int] | None:
    """Return the bytes of each table with its indexes and TOAST; None where the database does not answer.

    The transaction is its own, so the other figures are read anyway.
    """
    try:
        with db.read() as c:
            c.exec_driver_sql(f"SET LOCAL lock_timeout = {LOCK_MS}")
            rows = c.exec_driver_sql(_SIZES, {"tables": [table.name for table in fields(db.t)]}).all()
    except AWAY as e:
        cause = first_line(e) if isinstance(e, DBAPIError) else "every connection is in use"
        log.warning("the sizes of Sexton's tables are unknown for this scrape: %s", cause)
        return None
    return {name: size for name, size in sorted(map(tuple, rows)) if size is not None}
