"""Counters that outlive the rounds they were counted in, written in the transaction that stores a round's report."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from sexton.database.engine import Database
from sexton.recycle.model import RoundReport

NORMAL = "normal"
"""A vault's status in a round where nothing kept it from being used."""
ROUNDS, REMOVED, BYTES, VAULT, PROTECTIONS = "rounds", "removed", "bytes", "vault", "protections"
"""Names of counters. Labels: a kind for the first three (``*`` for rounds of any kind), VAULT/STATUS, and how
protections ended."""


def count_round(db: Database, c: Connection, report: RoundReport) -> None:
    """Add a round to its instance's counters."""
    if report.observed:
        return
    found: Counter[tuple[str, str]] = Counter({(ROUNDS, "*"): 1})
    for k in report.kinds:
        found += Counter({(ROUNDS, k.kind): 1, (REMOVED, k.kind): k.removed, (BYTES, k.kind): k.bytes})
    for vault, status in report.vaults.items():
        found[VAULT, f"{vault}/{status}"] += 1
    add_to_counters(db, c, report.instance, found)


def add_to_counters(db: Database, c: Connection, instance: str, found: Mapping[tuple[str, str], int]) -> None:
    """Add to an instance's counters, by (name, label)."""
    table = db.t.counter
    insert = postgresql.insert if db.dialect == "postgresql" else sqlite.insert
    for (name, label), n in sorted(found.items()):
        row = insert(table).values(instance=instance, name=name, label=label, value=n)
        key = ["instance", "name", "label"]
        c.execute(row.on_conflict_do_update(index_elements=key, set_={"value": table.c.value + n}))


def read_counters(db: Database, c: Connection) -> Mapping[tuple[str, str, str], int]:
    """Return every counter by (instance, name, label)."""
    t = db.t.counter
    return {(r.instance, r.name, r.label): r.value for r in c.execute(select(t))}
