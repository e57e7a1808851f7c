"""A checker put together over one database."""

from collections.abc import Callable, Iterator

from sexton.check.checker import Checker
from sexton.check.model import CheckSettings, Discrepancy
from sexton.check.sources import catalog_integrity
from sexton.check.sources.live_side import LiveSide
from sexton.check.sql.orphans import Orphans
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.operators.registry.store import Registry
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.storage.port import Vaults


def checker(
    db: Database,
    runs: CheckStore,
    live: LiveSide,
    vaults: Vaults,
    terms: CheckSettings,
    expected: Callable[[str], int | None] = lambda _: None,
) -> Checker:
    """Return a checker; ``expected`` says how many live objects an instance has, where it knows."""
    registry = Registry(db)

    def records(instance: str) -> Iterator[Discrepancy]:
        if registry.owner(instance) == "catalog":
            with db.snapshot() as c:
                yield from catalog_integrity.records(CatalogTransaction(db, c, instance))

    return Checker(
        runs,
        live,
        vaults,
        registry.vaults,
        records,
        Orphans(db).take_back,
        grace_seconds=terms.grace_seconds,
        inverted=terms.inverted,
        expected=expected,
        heavy_objects=terms.heavy_objects,
        interval_seconds=terms.interval_seconds,
    )
