"""Serve the commands, the API and the console: everything operators and jobs request of one deployment.

The engine that a worker runs is put together in ``sexton.runtime.engine``.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import NamedTuple

from config.settings import Settings
from sexton.database.engine import Database
from sexton.insight.metrics.figures.topics import figures
from sexton.insight.metrics.model import WalFigures
from sexton.insight.status import overview
from sexton.insight.views import Overview, Story
from sexton.insight.why.context import WhyContext
from sexton.insight.why.story import story
from sexton.marks.model import DueMark, Expansion
from sexton.marks.policy import Unplaced, places
from sexton.operators.controls.model import Halt
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.store import Hold, HoldStore
from sexton.operators.registry.store import Registry
from sexton.protection.model import Item
from sexton.protection.registrar import Registrar
from sexton.protection.sql.store import ProtectionStore
from sexton.recycle.audit.locations import AuditLocations
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.pipeline.model import Cursor
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.planning.estimate import Estimate, estimate, rate
from sexton.recycle.planning.model import Plan
from sexton.recycle.planning.sql.plans import PlanStore
from sexton.recycle.rounds.sql.reports import Reports
from sexton.recycle.rounds.sql.schedule import RoundSchedule
from sexton.replication.binlog.binlogs import BinlogService
from sexton.runtime.engine import owners
from sexton.storage.vaults import ProvenVaults
from sexton.wal.wal import WalService

RATE_SAMPLE_ROUNDS = 5
"""The last rounds from which the rate of deletion is estimated."""


class PlanPreview(NamedTuple):
    """A stored plan, with what an operator should know before applying it."""

    plan: Plan
    cost: Estimate
    observes: bool
    holds: Sequence[Hold]
    halt: Halt | None


class OperatorService:
    """The services of one deployment, built on first use from a database and the settings of this process."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self.settings, self.db = settings, db
        self.registry = Registry(db)

    @cached_property
    def controls(self) -> ControlStore:
        """Stops, lists and windows, including those of the settings."""
        return ControlStore(self.db, self.settings.controls())

    @cached_property
    def round_schedule(self) -> RoundSchedule:
        """When each instance is due for a round."""
        recycle = self.settings.recycle
        return RoundSchedule(self.db, self.controls, recycle.recycle_interval_seconds, recycle.recycle_concurrency)

    @cached_property
    def protections(self) -> ProtectionStore:
        """The register of protections."""
        return ProtectionStore(self.db, self.settings.protection_settings())

    @cached_property
    def vaults(self) -> ProvenVaults:
        """The vaults; the identity of each is proved before use."""
        deployment, endpoint = self.settings.require_deployment(), self.settings.s3.endpoint_url
        return ProvenVaults(self.registry.vault, deployment, endpoint, knows_round=self.registry.knows_round)

    @cached_property
    def registrar(self) -> Registrar:
        """Registers protections, and checks that the protected objects exist."""
        return Registrar(self.protections, self.vaults)

    @cached_property
    def audit(self) -> AuditReader:
        """Reads the audit from every place where it is stored."""
        deployment, endpoint = self.settings.require_deployment(), self.settings.s3.endpoint_url
        vaults = ProvenVaults(self.registry.vault, deployment, endpoint)
        locations = AuditLocations(
            vaults,
            self.registry.vaults,
            deployment=deployment,
            endpoint_url=endpoint,
            audit_url=self.settings.audit.audit_url,
        )
        return AuditReader(self.db, locations)

    @cached_property
    def wal(self) -> WalService:
        """Kafka topics that regions share."""
        return WalService(self.db, self.settings.wal_settings())

    @cached_property
    def binlogs(self) -> BinlogService:
        """Binlogs, replicas, and the journal that followers replay."""
        return BinlogService(self.db, self.settings.binlog_settings(), self.settings.replica_settings(), self.controls)

    def wal_figures(self) -> WalFigures:
        """Return the figures of all topics that are purged."""
        with self.db.read() as c:
            return figures(self.db, c, self.db.now(c))

    def status(self) -> Overview:
        """Return the state of every instance: what is running, waiting, due and kept."""
        slots = self.settings.recycle.recycle_concurrency
        return overview(self.db, self.settings.policy(), self.controls, self.round_schedule, slots)

    def stories(self, name: str, instance: str | None = None) -> list[Story]:
        """Return what is known about an object's key or a mark's id."""
        context = WhyContext(self.settings.policy(), self.controls, self.round_schedule, owners(self.db), self.audit)
        return story(self.db, name, instance, context)

    def plan(self, instance: str, by: str) -> PlanPreview:
        """Store and return a plan of everything that is due now. Raise ``UnknownInstance``."""
        observes = self.registry.instance(instance).mode == "observe"
        owner, plans, policy = owners(self.db), PlanStore(self.db), self.settings.policy()
        with self.db.read() as c:
            halt = self.controls.halt(c, instance)
        if not observes and halt is None:
            # The round that applies the plan does this too, so the plan contains what the owner marks here.
            owner.mark_due(instance, plans.retentions.cutoffs(instance, policy), lambda: None)
        plan = plans.plan_for_operator(instance, policy, by, lambda: owner.live_objects(instance))
        return PlanPreview(plan, self.cost(plan), observes, HoldStore(self.db).active(instance), halt)

    def due_items(self, instance: str, marks_per_kind: int) -> Iterator[Item]:
        """Yield keys and prefixes that some due marks of each kind would delete; marks of live objects are left out."""
        owner, batches = owners(self.db), BatchStore(self.db)
        policy = self.settings.policy()
        for kind, cutoff in PlanStore(self.db).retentions.cutoffs(instance, policy).items():
            due = batches.select_due(instance, kind, cutoff, Cursor(), marks_per_kind)
            expansions = owner.expand(instance, due, lambda: None) if due else {}
            live = owner.live(instance, due, lambda: None) if due else ()
            for mark in due:
                if mark.ref not in live:
                    yield from _items(mark, expansions.get(mark.ref))

    def cost(self, plan: Plan) -> Estimate:
        """Estimate the cost of a plan from the configured prices and the rate of the instance's last rounds."""
        reports = Reports(self.db).find_round(plan.instance, RATE_SAMPLE_ROUNDS)
        return estimate(plan, self.settings.prices, rate(reports))


def _items(mark: DueMark, expansion: Expansion | None) -> Iterator[Item]:
    """Yield the keys and prefixes of a mark; none if one of its places names no vault."""
    with suppress(Unplaced):
        for place in places(mark, expansion):
            yield from (Item(place.vault, key) for key in place.keys or ())
            if place.prefix is not None:
                yield Item(place.vault, place.prefix, prefix=True)
