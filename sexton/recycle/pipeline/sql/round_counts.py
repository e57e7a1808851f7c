"""Add to a round's counts in the transaction that makes them true, so that no crash counts twice or not at all."""

from collections.abc import Mapping

from sqlalchemy import Connection
from sqlalchemy.dialects.postgresql import insert as upsert

from sexton.database.engine import Database
from sexton.database.rows import MOST_SUM, plus


def increment(db: Database, tx: Connection, round_: int, counts: Mapping[tuple[str, str], Mapping[str, int]]) -> None:
    """Add counts per (kind, vault), each at most ``MOST_SUM``; their names are those of ``KindVaultCounts``."""
    table = db.t.tally
    for (kind, vault), given in sorted(counts.items()):
        numbers = {name: min(number, MOST_SUM) for name, number in given.items()}
        row = {"round": round_, "kind": kind, "vault": vault, **numbers}
        sums = {name: plus(table.c[name], number) for name, number in numbers.items()}
        tx.execute(
            upsert(table).values(row).on_conflict_do_update(index_elements=["round", "kind", "vault"], set_=sums)
        )
