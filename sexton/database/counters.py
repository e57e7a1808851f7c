"""Add to counters that outlive their round, in the transaction that stores the round's report."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, select

from sexton.database.engine import Database
from sexton.database.rows import upsert
from sexton.recycle.model import RoundReport

NORMAL = "normal"
"""A vault's status in a round that could use it."""
ROUNDS, REMOVED, BYTES, VAULT, PROTECTIONS = "rounds", "removed", "bytes", "vault", "protections"
"""Names of counters. The first three are labelled with a kind (``*`` counts rounds of any kind), ``vault`` with
VAULT/STATUS, and ``protections`` with the way in which a protection ended."""


def count_round(db: Database, c: Connection, report: RoundReport) -> None:
    """Add a round to its instance's counters; a round that only observed counts nothing."""
    if report.observed:
        return
    increments: Counter[tuple[str, str]] = Counter({(ROUNDS, "*"): 1})
    for kind in report.kinds:
        increments += Counter(
            {(ROUNDS, kind.kind): 1, (REMOVED, kind.kind): kind.removed, (BYTES, kind.kind): kind.bytes}
        )
    for vault, status in report.vaults.items():
        increments[VAULT, f"{vault}/{status}"] += 1
    add_to_counters(db, c, report.instance, increments)


def add_to_counters(db: Database, c: Connection, instance: str, increments: Mapping[tuple[str, str], int]) -> None:
    """Add to an instance's counters, by (name, label)."""
    table = db.t.counter
    for (name, label), increment in sorted(increments.items()):
        row = upsert(db, table).values(instance=instance, name=name, label=label, value=increment)
        key = ["instance", "name", "label"]
        c.execute(row.on_conflict_do_update(index_elements=key, set_={"value": table.c.value + increment}))


def read_counters(db: Database, c: Connection) -> Mapping[tuple[str, str, str], int]:
    """Return every counter by (instance, name, label)."""
    t = db.t.counter
    return {(r.instance, r.name, r.label): r.value for r in c.execute(select(t))}
