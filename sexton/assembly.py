"""The engine put together over one database: stores, vaults, owners, pace and audit, as every worker runs them.

Whoever needs one of them alone builds it alone; here is how all of them belong together.
"""

from sexton.audit.places import Places
from sexton.audit.writer import ParquetAudit
from sexton.binlog.binlogs import Binlogs
from sexton.catalog.owner import CatalogOwner
from sexton.check.checking import checker
from sexton.check.direct import Direct
from sexton.check.live import LiveSide
from sexton.check.orphans import Orphans
from sexton.check.store import CheckStore
from sexton.check.turns import CheckTurns
from sexton.control.store import ControlStore
from sexton.db.engine import Database
from sexton.lease.store import LeaseStore
from sexton.marks.store import MarkStore
from sexton.owner.owners import Owners
from sexton.owner.port import Owner
from sexton.owner.sql import SqlOwner
from sexton.pace.pacer import SharedPacer
from sexton.pace.store import PaceStore
from sexton.protection.store import ProtectionStore
from sexton.recycle.steps import Recycler
from sexton.recycle.store import RoundStore
from sexton.recycle.sweep import Sweeper
from sexton.recycle.sweeps import Sweeps
from sexton.recycle.turns import TurnStore
from sexton.registry.store import Registry
from sexton.storage.vaults import ProvenVaults
from sexton.terms import Terms
from sexton.wal.wal import Wal


class Engine:
    """What a worker's activities and its metrics use."""

    def __init__(self, db: Database, terms: Terms) -> None:
        self.db, registry, lookup = db, Registry(db), Registry(db).vault
        self.controls = ControlStore(db, terms.controls)
        self.turns = TurnStore(db, self.controls, terms.interval_seconds, terms.rounds_at_once)
        self.protections = ProtectionStore(db, terms.protection)
        self.leases, self.marks = LeaseStore(db, at_once=terms.rounds_at_once), MarkStore(db, self.controls)
        vaults = ProvenVaults(lookup, terms.deployment, terms.endpoint_url, knows_round=registry.knows_round)
        pacer = SharedPacer(PaceStore(db), lookup, terms.endpoint_url)
        self.sweeper = Sweeper(self.marks, vaults, terms.requests_at_once, pacer, most_keys=terms.keys_a_request)
        self._owner = owner = owners(db)
        kept_in = {"deployment": terms.deployment, "endpoint_url": terms.endpoint_url, "audit_url": terms.audit_url}
        self.audit = ParquetAudit(Places(vaults, registry.vaults, **kept_in), terms.audit_retention_days)
        self._listings = terms.listings_at_once
        self.vaults, self.runs, self.live = vaults, CheckStore(db), LiveSide(db)
        self.checker = checker(db, self.runs, self.live, vaults, terms.check, owner.live_objects)
        self.check_turns = CheckTurns(db, terms.check.interval_seconds, enabled=terms.check.enabled)
        self.direct = Direct(vaults, self.live, self.runs)
        self.wal = Wal(db, terms.wal)
        self.binlogs = Binlogs(db, terms.binlog, terms.replica, self.controls)
        self.rounds = RoundStore(
            db, self.leases, self.controls, terms.interval_seconds, owner.live_objects, self.protections
        )

    def recycler(self, sweeps: Sweeps, **more: int) -> Recycler:
        """Return what does ranges, with files deleted where ``sweeps`` says; ``more``: sizes, see ``Recycler``."""
        return Recycler(
            self.marks, self.leases, self.controls, self.vaults, self._owner, sweeps, self.audit, self._listings, **more
        )


def owners(db: Database) -> Owners:
    """Return whom to ask about each instance."""
    known: dict[str, Owner] = {"sql": SqlOwner(db), "catalog": CatalogOwner(db)}
    return Owners(Registry(db).owner, known, Orphans(db).waiting)
