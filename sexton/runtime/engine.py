"""The composition root: build the stores, vaults, owners, pace and audit of one database, as every worker runs them."""

from collections.abc import Sequence

from config.engine_settings import EngineSettings
from sexton.check.in_process import InProcessComparison
from sexton.check.sources.live_side import LiveSide
from sexton.check.sql.orphans import Orphans
from sexton.check.sql.schedule import CheckSchedule
from sexton.check.sql.store import CheckStore
from sexton.database.engine import Database
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.keeper import HoldKeeper
from sexton.operators.registry.store import Registry
from sexton.owners.catalog.owner import CatalogOwner
from sexton.owners.owners import Owners
from sexton.owners.port import Owner
from sexton.owners.sql.owner import SqlOwner
from sexton.protection.sql.keeper import ProtectionKeeper
from sexton.protection.sql.store import ProtectionStore
from sexton.recycle.audit.locations import AuditLocations
from sexton.recycle.audit.writer import ParquetAudit
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.recycle.pipeline.deleter import Deleter
from sexton.recycle.pipeline.sql.store import pipeline_stores
from sexton.recycle.rounds.recycler import Parts, Recycler
from sexton.recycle.rounds.sql.schedule import RoundSchedule
from sexton.recycle.rounds.sql.store import RoundStore
from sexton.replication.binlog.binlogs import BinlogService
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from sexton.runtime.checker import checker
from sexton.storage.vaults import ProvenVaults
from sexton.wal.wal import WalService


class Engine:
    """Everything that a worker's activities and its metrics use, built over one database."""

    def __init__(self, db: Database, settings: EngineSettings) -> None:
        registry, owner = Registry(db), owners(db)
        vaults = ProvenVaults(
            registry.vault, settings.deployment, settings.endpoint_url, knows_round=registry.knows_round
        )
        self.db, self.vaults, self._owner = db, vaults, owner
        self.controls = ControlStore(db, settings.controls)
        self.schedule = RoundSchedule(db, self.controls, settings.interval_seconds, settings.rounds_at_once)
        self.protections = ProtectionStore(db, settings.protection)
        self.leases = LeaseStore(db, at_once=settings.rounds_at_once)
        self.stores = pipeline_stores(db, self.controls, keepers(db))
        self.rounds = RoundStore(
            db, self.leases, self.controls, settings.interval_seconds, owner.live_objects, self.protections
        )
        self.deleter = ThreadDeleter(
            self.stores,
            vaults,
            settings.requests_at_once,
            SharedPacer(PaceStore(db), registry.vault, settings.endpoint_url),
            most_keys=settings.keys_a_request,
        )
        audit_location = AuditLocations(
            vaults,
            registry.vaults,
            deployment=settings.deployment,
            endpoint_url=settings.endpoint_url,
            audit_url=settings.audit_url,
        )
        self.audit = ParquetAudit(audit_location, settings.audit_retention_days)
        self._listings_at_once = settings.listings_at_once
        self.check_runs, self.live_side = CheckStore(db), LiveSide(db)
        self.checker = checker(db, self.check_runs, self.live_side, vaults, settings.check, owner.live_objects)
        self.check_schedule = CheckSchedule(db, settings.check.interval_seconds, enabled=settings.check.enabled)
        self.in_process_compare = InProcessComparison(vaults, self.live_side, self.check_runs)
        self.wal = WalService(db, settings.wal)
        self.binlogs = BinlogService(db, settings.binlog, settings.replica, self.controls)

    def recycler(self, deleter: Deleter, **sizes: int) -> Recycler:
        """Return the recycler that deletes files with ``deleter``; ``sizes``: see ``Recycler``."""
        parts = Parts(self.stores, self.leases, self.controls, self.vaults, self._owner, self.audit)
        return Recycler(parts, deleter, self._listings_at_once, **sizes)


def keepers(db: Database) -> Sequence[Keeper]:
    """Return everything that may block a deletion, in order of precedence."""
    return (HoldKeeper(db), ProtectionKeeper(db), ReplicaKeeper(db))


def owners(db: Database) -> Owners:
    """Return the owner adapters, by which each instance's owner is queried."""
    adapters: dict[str, Owner] = {"sql": SqlOwner(db), "catalog": CatalogOwner(db)}
    return Owners(Registry(db).owner, adapters, Orphans(db).unproven)
