"""Drop a table of many tablets in the reference catalog: how soon the drop answers, and what its expansion costs.

Goals: the drop answers within 50 ms, and expansion takes as many statements for 100,000 tablets as for 1,000.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, func, select

from benchmarks.contenders import DEPLOYMENT, INSTANCE
from benchmarks.results import Figure, Result, at_most
from sexton.database import schema
from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.owners.catalog.model import NewTable, Schema
from sexton.owners.catalog.owner import CatalogOwner
from sexton.owners.catalog.store import Catalog
from sexton.owners.plugin import OwnerContext
from sexton.owners.plugins import add_instance
from tests.servers.postgres import Cluster

SIZES = (1_000, 100_000)
INDEXES, PARTITIONS = 2, 10
DROPS = 7
MOST_MILLISECONDS = 50
RETENTION_SECONDS = 10_800
TABLE = "orders"


@contextmanager
def _statements(db: Database) -> Iterator[list[str]]:
    sent: list[str] = []

    def hear(_c: Any, _cursor: Any, statement: str, *_: Any) -> None:
        sent.append(statement)

    event.listen(db.engine, "before_cursor_execute", hear)
    try:
        yield sent
    finally:
        event.remove(db.engine, "before_cursor_execute", hear)


def _measure(url: str, tablets: int) -> dict[str, Any]:
    """Drop and undrop a table some times, then let it fall due and expand it."""
    schema.init(url, DEPLOYMENT)
    db = Database.open(url)
    add_instance(db, Registry(db), INSTANCE, "catalog")
    catalog, each = Catalog(db, INSTANCE), tablets // INDEXES // PARTITIONS
    indexes = {f"i{n}": Schema() for n in range(INDEXES)}
    catalog.create_table(NewTable(id=TABLE, indexes=indexes, partitions={f"p{n}": each for n in range(PARTITIONS)}))
    took = []
    for n in range(DROPS):
        if n:
            catalog.undrop_table(TABLE)
        began = time.perf_counter()
        catalog.drop_table(TABLE)
        took.append(1000 * (time.perf_counter() - began))
    schema.move_clock(db, RETENTION_SECONDS + 1)
    with db.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
        c.exec_driver_sql("ANALYZE")  # as autovacuum does by itself, long before the retention has passed
    with db.read() as c:
        due_by = db.now(c) - 1000 * RETENTION_SECONDS
    with _statements(db) as sent:
        began = time.perf_counter()
        CatalogOwner(OwnerContext(db, Registry(db))).mark_due(INSTANCE, {"table": due_by}, lambda: None)
        seconds = time.perf_counter() - began
    with db.read() as c:
        made = c.execute(select(func.count()).where(db.t.mark.c.kind == "tablet")).scalar_one()
    db.close()
    if made != tablets:
        raise AssertionError(f"{made:,} of {tablets:,} tablets were marked")
    return {"drop_ms": took, "statements": len(sent), "expansion_seconds": seconds}


def run(sizes: Sequence[int] = SIZES) -> Result:
    """Measure."""
    cluster, found = Cluster(), {}
    try:
        for tablets in sizes:
            found[tablets] = m = _measure(cluster.create_database(), tablets)
            print(
                f"{tablets:,} tablets: drop {statistics.median(m['drop_ms']):.1f} ms, "
                f"expansion {m['statements']} statements in {m['expansion_seconds']:.2f} s",
                flush=True,
            )
    finally:
        cluster.stop()
    few, many = found[sizes[0]], found[sizes[-1]]
    drop, same = statistics.median(many["drop_ms"]), few["statements"] == many["statements"]
    expanded = f"statements that expand {sizes[-1]:,} tablets"
    figures = [
        at_most(f"a drop of {sizes[-1]:,} tablets answers, median", drop, MOST_MILLISECONDS, "ms", 1),
        Figure(expanded, str(many["statements"]), f"= {few['statements']}", same),
        Figure("time of the expansion", f"{many['expansion_seconds']:.2f} s"),
    ]
    sizes_ = {"tablets": f"{sizes[-1]:,}", "indexes": INDEXES, "partitions": PARTITIONS, "drops": DROPS}
    return Result("drop", sizes_, figures, {f"PostgreSQL {n}": m for n, m in found.items()})
