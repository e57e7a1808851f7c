"""Add to a round's counts in the transaction that makes them true, so that no crash counts twice or not at all."""

from collections.abc import Mapping

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from sexton.database.engine import Database


def add(db: Database, c: Connection, round_: int, counts: Mapping[tuple[str, str], Mapping[str, int]]) -> None:
    """Add counts per (kind, vault); column names are those of ``Tally``."""
    table = db.t.tally
    insert = postgresql.insert if db.dialect == "postgresql" else sqlite.insert
    for (kind, vault), numbers in sorted(counts.items()):
        statement = insert(table).values(round=round_, kind=kind, vault=vault, **numbers)
        c.execute(
            statement.on_conflict_do_update(
                index_elements=["round", "kind", "vault"], set_={n: table.c[n] + numbers[n] for n in numbers}
            )
        )
