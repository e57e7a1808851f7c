"""Build a checker over one database."""

from collections.abc import Callable, Iterator

from sexton.check.checker import Checker, CheckPorts
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
    check_runs: CheckStore,
    live_side: LiveSide,
    vaults: Vaults,
    settings: CheckSettings,
    live_objects: Callable[[str], int | None] = lambda _: None,
) -> Checker:
    """Return a checker.

    Args:
        db: the instance's records, findings and registry.
        check_runs: the stored checks and their findings.
        live_side: the live objects, read from the owners' records.
        vaults: the vaults to list.
        settings: of checks.
        live_objects: returns an instance's number of live objects; None where it is unknown.
    """
    registry = Registry(db)

    def record_problems(instance: str) -> Iterator[Discrepancy]:
        if registry.owner(instance) == "catalog":
            with db.snapshot() as c:
                yield from catalog_integrity.records(CatalogTransaction(db, c, instance))

    ports = CheckPorts(
        runs=check_runs,
        live=live_side,
        vaults=vaults,
        vaults_of=registry.vaults,
        contradictions=record_problems,
        remove_refuted_marks=Orphans(db).remove_refuted_marks,
        live_objects=live_objects,
    )
    return Checker(ports, settings)
