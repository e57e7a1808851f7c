"""The composition root: build the rounds, the recycler, the deleter, the audit and the checker that every worker runs.

Their stores come from ``sexton.runtime.stores``, as those of the commands and the API do.
"""

from config.settings import EngineSettings
from sexton.check.checker import Checker, CheckPorts
from sexton.check.in_process import InProcessComparison
from sexton.check.sql.store import CheckSchedule
from sexton.database.engine import Database
from sexton.marks.sql.leases import LeaseStore
from sexton.owners.plugins import FrontEnds
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.parts import Deleter, Parts
from sexton.recycle.rounds.recycler import Recycler
from sexton.recycle.rounds.sql.store import RoundStore
from sexton.runtime.stores import DeploymentStores


class Engine:
    """Everything that a worker's activities and its metrics use, built over one database."""

    def __init__(self, db: Database, settings: EngineSettings, stores: DeploymentStores | None = None) -> None:
        """``stores``: of the same database, some of them replaced, for tests."""
        self.stores = stores = stores or DeploymentStores(db, settings)
        self.leases = LeaseStore(db, at_once=settings.rounds_at_once)
        in_force = settings.in_force
        self.rounds = RoundStore(
            db,
            self.leases,
            stores.operators,
            in_force.map(lambda s: s.interval_seconds),
            stores.owners.live_objects,
            stores.keepers,
        )
        self.deleter = ThreadDeleter(
            stores.pipeline,
            stores.vaults,
            settings.requests_at_once,
            SharedPacer(stores.paces, stores.registry.vault, settings.endpoint_url),
        )
        self.audit = ParquetAudit(stores.audit_locations(stores.vaults), settings.audit_retention_days)
        self.check_ports = CheckPorts(
            runs=stores.checks,
            live=stores.live_side,
            vaults=stores.vaults,
            registry=stores.registry,
            owner=stores.owners,
            front_ends=FrontEnds(stores.registry, settings.trust),
            orphans=stores.orphans,
        )
        self.checker = Checker(self.check_ports, in_force.map(lambda s: s.check))
        self.check_schedule = CheckSchedule(
            db, in_force.map(lambda s: s.check.interval_seconds), enabled=settings.check.enabled
        )
        self.in_process_compare = InProcessComparison(stores.vaults, stores.live_side, stores.checks)

    def recycler(self, deleter: Deleter, group_files: int | None = None) -> Recycler:
        """Return the recycler that deletes files with ``deleter``; ``group_files``: see ``Recycler``."""
        stores = self.stores
        parts = Parts(
            stores.pipeline,
            self.leases,
            stores.controls,
            stores.vaults,
            stores.owners,
            self.audit,
            deleter,
            stores.settings.listings_at_once,
        )
        return Recycler(parts, group_files)
