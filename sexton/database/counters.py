"""Counters that outlive the rounds they were counted in, written in the transaction that stores a round's report."""

from collections.abc import Mapping

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import MOST_SUM, plus

NORMAL = "normal"
"""A vault's status in a round that could use it."""
ROUNDS, REMOVED, OBJECTS, BYTES = "rounds", "removed", "objects", "bytes"
"""Names of counters by kind, and ``*`` for rounds of any kind."""
VAULT, PROTECTIONS = "vault", "protections"
"""Names of counters by VAULT/STATUS, and by how protections ended."""


def add_to_counters(db: Database, tx: Connection, instance: str, counts: Mapping[tuple[str, str], int]) -> None:
    """Add to an instance's counters, by (name, label); no counter exceeds ``MOST_SUM``."""
    table = db.t.counter
    for (name, label), count in sorted(counts.items()):
        n = min(count, MOST_SUM)
        row = upsert(table).values(instance=instance, name=name, label=label, value=n)
        key = ["instance", "name", "label"]
        tx.execute(row.on_conflict_do_update(index_elements=key, set_={"value": plus(table.c.value, n)}))
