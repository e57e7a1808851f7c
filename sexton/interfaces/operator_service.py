"""What operators and jobs ask of one deployment, put together from its settings: for the commands and for the API.

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
from sexton.marks.policy import Unplaced, places
from sexton.operators.controls.model import Halt
from sexton.operators.controls.store import ControlStore
from sexton.operators.holds.store import Hold, HoldStore
from sexton.operators.registry.store import Registry
from sexton.protection.model import Item
from sexton.protection.registrar import Registrar
from sexton.protection.sql.store import ProtectionStore
from sexton.recycle.audit.locations import Places
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.model import Cursor, Plan
from sexton.recycle.pipeline.sql.batches import BatchStore
from sexton.recycle.planning.estimate import Estimate, estimate, rate
from sexton.recycle.planning.sql.plans import PlanStore
from sexton.recycle.rounds.sql.reports import Reports
from sexton.recycle.rounds.sql.schedule import RoundSchedule
from sexton.replication.binlog.binlogs import BinlogService
from sexton.runtime.engine import owners
from sexton.storage.vaults import ProvenVaults
from sexton.wal.wal import WalService

LATELY = 5
"""Rounds from which the rate of deleting is taken."""


class Planned(NamedTuple):
    """A plan, and what whoever looks at it should know beside."""

    plan: Plan
    cost: Estimate
    observes: bool
    holds: Sequence[Hold]
    halt: Halt | None


class OperatorService:
    """One database, with the settings of this process."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self.settings, self.db = settings, db
        self.registry = Registry(db)

    @cached_property
    def controls(self) -> ControlStore:
        """The controls, with those of the settings."""
        return ControlStore(self.db, self.settings.controls())

    @cached_property
    def turns(self) -> RoundSchedule:
        """Whose turn is when."""
        recycle = self.settings.recycle
        return RoundSchedule(self.db, self.controls, recycle.recycle_interval_seconds, recycle.recycle_concurrency)

    @cached_property
    def protections(self) -> ProtectionStore:
        """The register of protections."""
        return ProtectionStore(self.db, self.settings.protections())

    @cached_property
    def vaults(self) -> ProvenVaults:
        """The vaults, each proved before use."""
        deployment, endpoint = self.settings.require_deployment(), self.settings.s3.endpoint_url
        return ProvenVaults(self.registry.vault, deployment, endpoint, knows_round=self.registry.knows_round)

    @cached_property
    def registrar(self) -> Registrar:
        """Who registers them, and looks whether all of it is there."""
        return Registrar(self.protections, self.vaults)

    @cached_property
    def audit(self) -> AuditReader:
        """Who reads the audit, in all its places."""
        deployment, endpoint = self.settings.require_deployment(), self.settings.s3.endpoint_url
        vaults = ProvenVaults(self.registry.vault, deployment, endpoint)
        kept_in = {"deployment": deployment, "endpoint_url": endpoint, "audit_url": self.settings.audit.audit_url}
        return AuditReader(self.db, Places(vaults, self.registry.vaults, **kept_in))

    @cached_property
    def wal(self) -> WalService:
        """Kafka topics that regions share."""
        return WalService(self.db, self.settings.wal_terms())

    @cached_property
    def binlogs(self) -> BinlogService:
        """Binlogs, replicas, and the journal that followers replay."""
        return BinlogService(self.db, self.settings.binlog_terms(), self.settings.replica_terms(), self.controls)

    def topics(self) -> WalFigures:
        """Return the topics that are purged, in numbers."""
        with self.db.read() as c:
            return figures(self.db, c, self.db.now(c))

    def status(self) -> Overview:
        """Return every instance: what runs, waits, is due, is kept."""
        slots = self.settings.recycle.recycle_concurrency
        return overview(self.db, self.settings.policy(), self.controls, self.turns, slots)

    def stories(self, what: str, instance: str | None = None) -> list[Story]:
        """Return what is known of a key or an id."""
        context = WhyContext(self.settings.policy(), self.controls, self.turns, owners(self.db), self.audit)
        return story(self.db, what, instance, context)

    def plan(self, instance: str, by: str) -> Planned:
        """Store and return what a round would delete now, with everything that is due in it; ``UnknownInstance``."""
        observes, owner, plans = self.registry.instance(instance).mode == "observe", owners(self.db), PlanStore(self.db)
        policy = self.settings.policy()
        with self.db.read() as c:
            halt = self.controls.halt(c, instance)
        if not observes and halt is None:  # as the round that applies it would, so that all of it is in the plan
            owner.due(instance, plans.retentions.cutoffs(instance, policy), lambda: None)
        made = plans.plan_for_operator(instance, policy, by, lambda: owner.live_objects(instance))
        return Planned(made, self.cost(made), observes, HoldStore(self.db).active(instance), halt)

    def due_items(self, instance: str, marks: int) -> Iterator[Item]:
        """Yield what some marks of each kind stand for that are due now: keys, and prefixes of files."""
        owner, batches = owners(self.db), BatchStore(self.db)
        policy = self.settings.policy()
        for kind, cutoff in PlanStore(self.db).retentions.cutoffs(instance, policy).items():
            due = batches.select_due(instance, kind, cutoff, Cursor(), marks)
            told = owner.expand(instance, due, lambda: None) if due else {}
            live = owner.live(instance, due, lambda: None) if due else ()
            for mark in (m for m in due if m.ref not in live):
                with suppress(Unplaced):
                    for place in places(mark, told.get(mark.ref)):
                        yield from (Item(place.vault, key) for key in place.keys or ())
                        if place.prefix is not None:
                            yield Item(place.vault, place.prefix, prefix=True)

    def cost(self, plan: Plan) -> Estimate:
        """Return what a plan costs, by the prices of the settings and the rate of the instance's last rounds."""
        return estimate(plan, self.settings.prices, rate(Reports(self.db).find_round(plan.instance, LATELY)))
