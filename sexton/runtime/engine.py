"""The engine put together over one database: stores, vaults, owners, pace and audit, as every worker runs them.

Whoever needs one of them alone builds it alone; here is how all of them belong together.
"""

from collections.abc import Sequence

from config.engine_settings import EngineSettings
from sexton.check.in_process import Direct
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
from sexton.recycle.audit.locations import Places
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
    """What a worker's activities and its metrics use."""

    def __init__(self, db: Database, terms: EngineSettings) -> None:
        self.db, registry, lookup = db, Registry(db), Registry(db).vault
        self.controls = ControlStore(db, terms.controls)
        self.turns = RoundSchedule(db, self.controls, terms.interval_seconds, terms.rounds_at_once)
        self.protections = ProtectionStore(db, terms.protection)
        self.leases = LeaseStore(db, at_once=terms.rounds_at_once)
        self.stores = pipeline_stores(db, self.controls, keepers(db))
        vaults = ProvenVaults(lookup, terms.deployment, terms.endpoint_url, knows_round=registry.knows_round)
        pacer = SharedPacer(PaceStore(db), lookup, terms.endpoint_url)
        self.deleter = ThreadDeleter(self.stores, vaults, terms.requests_at_once, pacer, most_keys=terms.keys_a_request)
        self._owner = owner = owners(db)
        kept_in = {"deployment": terms.deployment, "endpoint_url": terms.endpoint_url, "audit_url": terms.audit_url}
        self.audit = ParquetAudit(Places(vaults, registry.vaults, **kept_in), terms.audit_retention_days)
        self._listings = terms.listings_at_once
        self.vaults, self.runs, self.live = vaults, CheckStore(db), LiveSide(db)
        self.checker = checker(db, self.runs, self.live, vaults, terms.check, owner.live_objects)
        self.check_turns = CheckSchedule(db, terms.check.interval_seconds, enabled=terms.check.enabled)
        self.direct = Direct(vaults, self.live, self.runs)
        self.wal = WalService(db, terms.wal)
        self.binlogs = BinlogService(db, terms.binlog, terms.replica, self.controls)
        self.rounds = RoundStore(
            db, self.leases, self.controls, terms.interval_seconds, owner.live_objects, self.protections
        )

    def recycler(self, deleter: Deleter, **sizes: int) -> Recycler:
        """Return the recycler that deletes files with ``deleter``; ``sizes``: see ``Recycler``."""
        parts = Parts(self.stores, self.leases, self.controls, self.vaults, self._owner, self.audit)
        return Recycler(parts, deleter, self._listings, **sizes)


def keepers(db: Database) -> Sequence[Keeper]:
    """Return everything that may block a deletion, in order of precedence."""
    return (HoldKeeper(db), ProtectionKeeper(db), ReplicaKeeper(db))


def owners(db: Database) -> Owners:
    """Return whom to ask about each instance."""
    known: dict[str, Owner] = {"sql": SqlOwner(db), "catalog": CatalogOwner(db)}
    return Owners(Registry(db).owner, known, Orphans(db).waiting)
