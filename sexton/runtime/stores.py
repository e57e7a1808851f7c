"""Build every store, registry and service of one deployment, at its first use.

The engine of a worker, the commands and the API get their stores here. Modules are imported at first use too: a command
that reads one table must not wait for the libraries of S3 and Parquet.
"""

from collections.abc import Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from config.live import LiveSettings
from config.settings import EngineSettings, Settings
from sexton.database.engine import Database
from sexton.kernel.live import Live

if TYPE_CHECKING:
    from sexton.check.sql.live_side import LiveSide
    from sexton.check.sql.repair import Orphans, Repairs
    from sexton.check.sql.store import CheckStore
    from sexton.insight.metrics.figures.store import FigureStore, Intervals
    from sexton.insight.metrics.model import WalFigures
    from sexton.insight.status import InsightStores
    from sexton.marks.sql.commits import CommitStore
    from sexton.marks.sql.keeper import Keeper
    from sexton.operators.access.store import TokenStore
    from sexton.operators.call_log import CallStore
    from sexton.operators.controls.store import ControlStore
    from sexton.operators.holds.store import HoldStore
    from sexton.operators.registry.markers import MarkerStore
    from sexton.operators.registry.store import Registry
    from sexton.operators.settings import SettingStore
    from sexton.operators.stores import OperatorStores
    from sexton.owners.owners import Owners
    from sexton.protection.model import ProtectionSettings
    from sexton.protection.registrar import Registrar
    from sexton.protection.sql.store import ProtectionStore
    from sexton.recycle.audit.store import AuditReader
    from sexton.recycle.audit.writer import AuditLocations
    from sexton.recycle.pacing.store import PaceStore
    from sexton.recycle.pipeline.parts import Stores
    from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
    from sexton.recycle.planning.model import Policy
    from sexton.recycle.planning.sql.plans import PlanStore
    from sexton.recycle.rounds.sql.reports import Reports, RoundSchedule
    from sexton.replication.binlog.binlogs import BinlogService
    from sexton.replication.binlog.model import LogCounts
    from sexton.runtime.worker_rows import WorkerStore
    from sexton.storage.vaults import ProvenVaults
    from sexton.wal.wal import WalService


class DeploymentStores:
    """The stores of one deployment, built on first use over its database."""

    def __init__(self, db: Database, settings: EngineSettings) -> None:
        self.db, self.settings = db, settings

    @cached_property
    def operators(self) -> "OperatorStores":
        """The stores of operators: registry, controls, holds and the call log."""
        from sexton.operators.stores import operator_stores

        return operator_stores(self.db, self.settings.controls)

    @property
    def registry(self) -> "Registry":
        """Instances and vaults."""
        return self.operators.registry

    @property
    def controls(self) -> "ControlStore":
        """Stops, lists and windows, including those of the settings."""
        return self.operators.controls

    @property
    def holds(self) -> "HoldStore":
        """Operators' holds."""
        return self.operators.holds

    @property
    def calls(self) -> "CallStore":
        """The call log: who did what."""
        return self.operators.calls

    @cached_property
    def tokens(self) -> "TokenStore":
        """The API's tokens."""
        from sexton.operators.access.store import TokenStore

        return TokenStore(self.db)

    @cached_property
    def vaults(self) -> "ProvenVaults":
        """The vaults; the identity of each, and its last round, are proved before use."""
        from sexton.storage.vaults import ProvenVaults

        settings, trust = self.settings, self.settings.trust
        lookup, endpoint_url = self.registry.vault, settings.endpoint_url
        return ProvenVaults(lookup, settings.deployment, endpoint_url, records=self.markers, trust=trust)

    @cached_property
    def markers(self) -> "MarkerStore":
        """What this database knows of vaults' markers."""
        from sexton.operators.registry.markers import MarkerStore

        return MarkerStore(self.db)

    @cached_property
    def vaults_of_any_round(self) -> "ProvenVaults":
        """The vaults, proved except for the last round: for reading and repair, never for deleting."""
        from sexton.storage.vaults import ProvenVaults

        settings = self.settings
        return ProvenVaults(self.registry.vault, settings.deployment, settings.endpoint_url, trust=settings.trust)

    @cached_property
    def owners(self) -> "Owners":
        """The owner adapters, by which each instance's owner is queried."""
        from sexton.owners.owners import Owners
        from sexton.owners.plugin import OwnerContext
        from sexton.owners.plugins import build

        context = OwnerContext(self.db, self.registry, self.settings.check.live_max_age_seconds, self.settings.trust)
        built = cache(partial(build, context))  # one owner for all of its instances
        return Owners(
            lambda instance: built(self.registry.instance(instance).owner), self.registry.vaults, self.orphans.unproven
        )

    @cached_property
    def commits(self) -> "CommitStore":
        """The commits under way."""
        from sexton.marks.sql.commits import CommitStore

        return CommitStore(self.db)

    @cached_property
    def protections(self) -> "ProtectionStore":
        """The register of protections."""
        from sexton.protection.sql.store import ProtectionStore

        return ProtectionStore(self.db, self.settings.protection)

    @cached_property
    def registrar(self) -> "Registrar":
        """Registers protections, and checks that the protected objects exist."""
        from sexton.protection.registrar import Registrar

        return Registrar(self.protections, self.vaults)

    @cached_property
    def checks(self) -> "CheckStore":
        """The stored checks and their findings."""
        from sexton.check.sql.store import CheckStore

        return CheckStore(self.db)

    @cached_property
    def orphans(self) -> "Orphans":
        """The marks that repairs made of orphans."""
        from sexton.check.sql.repair import Orphans

        return Orphans(self.db)

    @cached_property
    def repairs(self) -> "Repairs":
        """Repairs confirmed findings."""
        from sexton.check.sql.repair import Repairs

        return Repairs(self.db, self.checks, self.vaults)

    @cached_property
    def live_side(self) -> "LiveSide":
        """The live objects, read from the owners' records."""
        from sexton.check.sql.live_side import LiveSide

        return LiveSide(self.db, self.registry, self.owners)

    @cached_property
    def plans(self) -> "PlanStore":
        """Plans, their approvals, and the retentions that were agreed to."""
        from sexton.recycle.planning.sql.plans import PlanStore

        return PlanStore(self.db, self.keepers)

    @cached_property
    def reports(self) -> "Reports":
        """Rounds and their reports."""
        from sexton.recycle.rounds.sql.reports import Reports

        return Reports(self.db)

    @cached_property
    def round_schedule(self) -> "RoundSchedule":
        """When each instance is due for a round."""
        from sexton.recycle.rounds.sql.reports import RoundSchedule

        interval_seconds = self.settings.in_force.map(lambda s: s.interval_seconds)
        return RoundSchedule(self.db, self.controls, interval_seconds, self.settings.rounds_at_once)

    @cached_property
    def keepers(self) -> "Sequence[Keeper]":
        """Everything that may block a deletion, in order of precedence."""
        return keepers(self.db, self.settings.protection)

    @cached_property
    def pipeline(self) -> "Stores":
        """The rows of the pipeline, one store per step; claims respect every keeper."""
        from sexton.recycle.pipeline.parts import Stores

        return Stores(self.db, self.controls, self.keepers, self.commits)

    @cached_property
    def quarantine(self) -> "QuarantineStore":
        """Quarantined marks, as operators list, retry and discard them."""
        from sexton.recycle.pipeline.sql.quarantine import QuarantineStore

        return QuarantineStore(self.db)

    @cached_property
    def paces(self) -> "PaceStore":
        """How fast each place is deleted from, and operators' caps."""
        from sexton.recycle.pacing.store import PaceStore

        return PaceStore(self.db)

    def audit_locations(self, vaults: "ProvenVaults") -> "AuditLocations":
        """Return the places of the audit, opened through ``vaults``."""
        from sexton.recycle.audit.writer import AuditLocations

        return AuditLocations(
            vaults,
            self.registry.vaults,
            deployment=self.settings.deployment,
            endpoint_url=self.settings.endpoint_url,
            trust=self.settings.trust,
            audit_url=self.settings.audit_url,
        )

    @cached_property
    def audit(self) -> "AuditReader":
        """Reads the audit from every place where it is stored."""
        from sexton.recycle.audit.store import AuditReader

        return AuditReader(self.db, self.audit_locations(self.vaults_of_any_round))

    @cached_property
    def wal(self) -> "WalService":
        """Kafka topics that regions share."""
        from sexton.wal.wal import WalService

        settings = self.settings
        return WalService(self.db, settings.wal, self.controls, settings.trust, settings.in_force.map(lambda s: s.wal))

    @cached_property
    def binlogs(self) -> "BinlogService":
        """Binlogs, replicas, and the journal that followers replay."""
        from sexton.replication.binlog.binlogs import BinlogService

        now = self.settings.in_force
        return BinlogService(self.db, now.map(lambda s: s.binlog), now.map(lambda s: s.replica), self.controls)

    @cached_property
    def insight(self) -> "InsightStores":
        """The stores that status, metrics and explanations read."""
        from sexton.insight.status import InsightStores
        from sexton.recycle.planning.sql.approvals import ApprovalStore

        return InsightStores(self.operators, self.round_schedule, ApprovalStore(self.db), self.paces, self.keepers)

    def figures(self, policy: "Policy | Live[Policy]", intervals: "Intervals | Live[Intervals]") -> "FigureStore":
        """Return the figures of metrics; ``intervals``: seconds between rounds, purges of a topic and binlog GCs."""
        from sexton.insight.metrics.figures.store import FigureStore

        return FigureStore(self.db, self.insight, policy, intervals, self.settings.in_force.map(lambda s: s.wal))

    def log_figures(self) -> "tuple[WalFigures, LogCounts]":
        """Return the figures of all topics that are purged, and the counts of all binlogs."""
        from sexton.insight.metrics.figures.logs import wal_figures
        from sexton.replication.binlog.sql.rows import count_logs

        settings = self.settings.in_force().wal
        with self.db.read() as c:
            return wal_figures(self.db, c, settings), count_logs(self.db, c)

    @cached_property
    def workers(self) -> "WorkerStore":
        """Which workers run, the settings of their files, and how busy those of Spark are."""
        from sexton.runtime.worker_rows import WorkerStore

        return WorkerStore(self.db)

    @cached_property
    def setting_rows(self) -> "SettingStore":
        """The settings that operators changed for all workers."""
        from sexton.operators.settings import SettingStore

        return SettingStore(self.db)


def live_settings(db: Database, settings: Settings) -> LiveSettings:
    """Return the settings in force: those of a process, and over them those of its database."""
    return LiveSettings(settings, DeploymentStores(db, settings.engine_settings()).setting_rows.all)


def keepers(db: Database, protection: "ProtectionSettings") -> "Sequence[Keeper]":
    """Return everything that may block a deletion, in order of precedence."""
    from sexton.marks.sql.commits import CommitKeeper
    from sexton.marks.sql.prepared import PreparedKeeper
    from sexton.operators.holds.keeper import HoldKeeper
    from sexton.protection.sql.keeper import ProtectionKeeper
    from sexton.replication.replicas.sql.keeper import ReplicaKeeper

    keepers = (HoldKeeper(db), ProtectionKeeper(db, protection), ReplicaKeeper(db), PreparedKeeper(db))
    return (*keepers, CommitKeeper(db))
