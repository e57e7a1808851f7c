"""One deployment, as operations see it: its stores, its settings, Temporal, and what several operations do with them.

Its stores are built in ``sexton.runtime.stores``. A command imports this module before it does anything, so functions
import what they need themselves.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from shlex import quote
from typing import TYPE_CHECKING

from config.settings import Settings
from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.runtime.stores import DeploymentStores, live_settings

if TYPE_CHECKING:
    from sexton.insight.marks import MarkFilter, PlanDetails, PlanReview, PlanStanding, SearchedPlace
    from sexton.insight.views import InstanceStatus, MarkPage, Overview, Story
    from sexton.marks.kept import Blocker
    from sexton.marks.model import DueMark, Ref
    from sexton.operators.access.model import Token
    from sexton.operators.controls.model import Halt
    from sexton.protection.model import Item
    from sexton.recycle.pipeline.model import Quarantined
    from sexton.recycle.planning.model import Estimate, Plan
    from sexton.runtime.temporal.starter import WorkflowStarter
    from sexton.storage.model import Probe, VaultSpec

RATE_SAMPLE_ROUNDS = 5
"""The last rounds from which the rate of deletion is estimated."""


class Deployment:
    """One deployment: its stores, over the settings of this process and those of the database."""

    def __init__(self, settings: Settings, db: Database) -> None:
        self.settings, self.db = settings, db
        self.live = live_settings(db, settings)
        self.policy = self.live.current.map(Settings.policy)
        """The policy in force, of an instance."""
        self.stores = DeploymentStores(db, self.live.engine_settings())

    @cached_property
    def starter(self) -> "WorkflowStarter":
        """What starts and signals workflows, over one connection to Temporal."""
        from sexton.runtime.temporal.starter import WorkflowStarter

        return WorkflowStarter(self.settings)

    def ignored_settings(self, instance: str | None = None) -> "list[Blocker]":
        """Return settings of the database that are not in force, as problems; ``instance``: those of its and of all."""
        from sexton.insight.views import ALL_INSTANCES
        from sexton.marks.kept import Blocker, Severity

        return [
            Blocker(
                severity=Severity.FAULT,
                instance=row.instance or ALL_INSTANCES,
                held_by="ignored setting",
                what=row.key,
                why=why.rstrip("."),
                way_out=f"sexton settings unset {row.key}" + (f" --instance {row.instance}" if row.instance else ""),
            )
            for row, why in self.live.ignored()
            if instance is None or row.instance in ("", instance)
        ]

    def ended_tokens(self, ended: "Sequence[Token] | None" = None) -> "list[Blocker]":
        """Return the tokens that ended while programs used them, as problems: what they renew or report now ends.

        ``ended``: these tokens, if the caller has read them.
        """
        from sexton.insight.views import ALL_INSTANCES
        from sexton.marks.kept import Blocker, Severity

        return [
            Blocker(
                severity=Severity.FAULT,
                instance=ALL_INSTANCES,
                held_by="ended token",
                what=f"token {token.id} ({token.scope})",
                since=token.expires_at,
                why="programs that use it are refused",
                way_out=f"sexton token create --scope {quote(str(token.scope))}, then: sexton token revoke {token.id}",
            )
            for token in (self.stores.tokens.ending()[0] if ended is None else ended)
        ]

    def problems_of(self, instances: "Sequence[InstanceStatus]", only: str | None = None) -> "list[Blocker]":
        """Return the problems of instances, and of settings in force nowhere; ``only``: those of its and of all."""
        from sexton.insight.status import problems

        return [*self.ignored_settings(only), *(row for i in instances for row in problems(i))]

    def problems(self) -> "list[Blocker]":
        """Return what needs an operator, as ``sexton status`` lists it: the worst first, and no orders of theirs."""
        from sexton.insight.status import log_problems, worst_first

        known = [*self.problems_of(self.status().instances), *self.ended_tokens()]
        known += log_problems(*self.stores.log_figures())
        return [row for row in worst_first(known) if not row.severity.is_ordered]

    def status(self, instance: str | None = None) -> "Overview":
        """Return the state of one instance, or of every one: what is running, waiting, due and kept."""
        from sexton.insight.status import overview

        slots = self.settings.recycle.recycle_concurrency
        return overview(self.db, self.stores.insight, self.policy, slots, instance)

    def stories(
        self, name: str, instance: str | None = None, *, deep: bool = False, last_seconds: int = 0
    ) -> "tuple[list[Story], str]":
        """Return what is known about an object's key, URL or mark's id, and where more may be known; empty: nowhere.

        ``deep``: search the audit, too, for marks that SQL no longer contains; ``last_seconds``: only so much of it; 0:
        all.
        """
        from sexton.insight.marks import names_of
        from sexton.insight.why.audit import audit_hint, forgotten
        from sexton.insight.why.blocking import WhyContext
        from sexton.insight.why.story import story

        stores = self.stores
        instances = [i.id for i in stores.registry.instances()] if instance is None else [instance]
        known = story(self.db, name, instance, WhyContext(self.policy, stores.insight, stores.owners, stores.audit))
        if known and not deep:
            return known, ""
        with self.db.read() as c:
            now = self.db.now(c)
        vaults = stores.registry.vaults(instance)
        names = names_of(vaults, name)
        if not deep:
            if "://" in name and names == {name}:
                of = "" if instance is None else f" of {instance}"
                return known, f"no vault{of} contains {name}; see: sexton vault list"
            return known, audit_hint(stores.audit, instances, name, now)
        first = now - last_seconds * 1000 if last_seconds else 0
        known_marks = {(s.instance, s.kind, s.id) for s in known}
        more = forgotten(stores.audit, instances, names, first, now)
        return [*known, *(s for s in more if (s.instance, s.kind, s.id) not in known_marks)], ""

    def enable(self, instance: str) -> None:
        """Allow rounds of an instance to delete, and agree to its retentions of now. Raise ``UnknownInstance``."""
        self.stores.registry.enable(instance)
        self.stores.plans.agree_first(instance, self.policy(instance))

    def live_fault(self, name: str) -> str:
        """Return why rounds cannot learn what is live in an instance; empty: they can, or need not."""
        from sexton.operators.registry.store import shows_live_objects
        from sexton.owners.port import NoLiveSide, NotAsked, OwnerSilent

        if not shows_live_objects(self.stores.registry.instance(name)):
            return ""
        try:
            self.stores.owners.live(name, (), lambda: None)
            self.stores.live_side.as_of(name, lambda: None)
        except NotAsked:
            return ""
        except (NoLiveSide, OwnerSilent) as e:
            return str(e)
        return ""

    def add_vault(self, spec: "VaultSpec", *, take_over: bool = False) -> "VaultSpec":
        """Register a vault, and let the instance's owner know; the arguments and errors of ``registry.add_vault``."""
        from sexton.operators.registry.add_remove import add_vault
        from sexton.owners.port import OwnerSilent

        settings = self.settings
        deployment, endpoint_url, trust = settings.require_deployment(), settings.s3.endpoint_url, settings.trust()
        added = add_vault(self.stores.registry, spec, deployment, endpoint_url, take_over=take_over, trust=trust)
        with suppress(OwnerSilent):  # it compares the vaults of the instance when it is asked again
            self.stores.owners.vaults_changed(spec.instance)
        return added

    def remove_vault(self, instance: str, vault: str, *, gone: bool) -> bool:
        """Remove a vault, and let the instance's owner know; as ``add_remove.remove_vault``. Raise ``UnknownVault``."""
        from sexton.operators.registry.add_remove import remove_vault
        from sexton.owners.port import OwnerSilent
        from sexton.storage.kinds import open_vault

        spec, settings = self.stores.registry.vault(instance, vault), self.settings
        opened = open_vault(spec, endpoint_url=settings.s3.endpoint_url, trust=settings.trust())
        had_marker = remove_vault(self.db, self.stores.keepers, opened, gone=gone)
        with suppress(OwnerSilent):  # it compares the vaults of the instance when it is asked again
            self.stores.owners.vaults_changed(instance)
        return had_marker

    def probe(self, instance: str, vault: str) -> "Probe":
        """Probe what a vault's store really does, store the result and return it. Raise ``UnknownVault``."""
        result = self.stores.vaults_of_any_round.get(instance, vault).probe()
        self.stores.registry.store_probe(instance, vault, result)
        return result

    def trust(self, instance: str, vault: str) -> int:
        """Let a vault's marker name the newest round of this database, and return its number.

        Everything is proved but the last round, which is what this repairs.

        Raises:
            BadInput: the vault has no marker.
            UnknownVault: there is no such vault.
        """
        place, markers = self.stores.vaults_of_any_round.get(instance, vault), self.stores.markers
        marker = place.read_marker()
        if marker is None:
            raise BadInput(f"vault {vault} no longer has a marker; see: sexton vault list {instance}")
        marker = markers.as_ours(instance, marker)
        with markers.writing(instance, vault) as turn:
            place.replace_marker(marker)
            turn.store_announced(marker.round)
        return marker.round

    def discard(self, instance: str, ref: "Ref", why: str) -> "Quarantined":
        """Give a mark up; raises as ``QuarantineStore.discard`` does."""
        children = self.stores.owners.marked_children(instance)
        derived = [kind for kind, parents in children.items() if ref.kind in parents]
        return self.stores.quarantine.discard(instance, ref, why, derived)

    def plan(self, instance: str, by: str, *, count: bool = False) -> "PlanDetails":
        """Return a plan of everything that is due now, and store it unless it is empty. Raise ``UnknownInstance``.

        ``count``: list what the marks name; otherwise the objects under prefixes are estimated.
        """
        from sexton.insight.marks import PlanDetails

        policy, owners, plans = self.policy(instance), self.stores.owners, self.stores.plans
        halt = self._halt(instance)
        if halt is None:
            # The round that applies the plan does this too, so the plan contains what the owner marks here.
            owners.mark_due(instance, plans.due_instants(instance, policy).agreed, lambda: None)
        counter = partial(self._count_objects, instance) if count else None
        plan = plans.plan_for_operator(instance, policy, by, lambda: owners.live_objects(instance), counter)
        due_at, kind = plans.next_due(instance, policy) or (None, "")
        state = plans.approvals.state(plan.id)
        return PlanDetails(**dict(self._standing(plan, halt)), state=state, next_due_at=due_at, next_kind=kind)

    def plan_review(self, plan: int, marks_per_kind: int) -> "PlanReview":
        """Return a stored plan, what blocks it now, and the first marks of each kind. Raise ``PlanRefused``."""
        from sexton.insight.marks import PlanReview, sample_marks

        plans = self.stores.plans
        stored = plans.find_plan(plan)
        marks = sample_marks(self.db, stored, marks_per_kind)
        standing = self._standing(stored, self._halt(stored.instance))
        return PlanReview(**dict(standing), row=plans.approvals.plan(plan), marks=marks)

    def _halt(self, instance: str) -> "Halt | None":
        with self.db.read() as c:
            return self.stores.controls.halt(c, instance)

    def _standing(self, plan: "Plan", halt: "Halt | None") -> "PlanStanding":
        """Return what blocks a plan besides itself. ``halt``: what stops its instance."""
        from sexton.insight.marks import PlanStanding

        stores = self.stores
        probes = {vault.name: vault.probe for vault in stores.registry.vaults(plan.instance)}
        suspended = ", ".join(name for name, probe in probes.items() if probe and probe.versioning == "Suspended")
        for_good = f"versioning is suspended in {suspended}: what was written since is deleted for good"
        return PlanStanding(
            plan=plan,
            estimate=self.cost(plan),
            observes=stores.registry.instance(plan.instance).mode == "observe",
            holds=tuple(stores.holds.active(plan.instance)),
            halt=str(halt or ""),
            for_good=for_good if suspended else "",
        )

    def marks(self, wanted: "MarkFilter", after: str, limit: int) -> "MarkPage":
        """Return one page of an instance's marks. Raise ``UnknownInstance``, or ``BadInput`` for a wrong place."""
        from sexton.insight.marks import MarkListing
        from sexton.recycle.planning.sql.measure import policy_of

        in_force = self.policy(wanted.instance)
        with self.db.read() as c:
            policy = policy_of(self.db, c, wanted.instance, in_force).policy
            return MarkListing(self.db, policy).page(c, wanted, after, limit)

    def marks_of_plan(self, plan: int, wanted: "MarkFilter", after: str, limit: int) -> "MarkPage":
        """Return one page of a plan's marks that are due now, of the wanted instance, kind and part of the files.

        Raise ``PlanRefused`` where the instance has no such plan, or ``BadInput`` for a wrong place.
        """
        from sexton.insight.marks import MarkListing, in_plan
        from sexton.recycle.model import UnknownPlan

        stored = self.stores.plans.find_plan(plan)
        if stored.instance != wanted.instance:
            raise UnknownPlan(plan)
        with self.db.read() as c:
            of_plan = in_plan(stored, wanted.kind, wanted.under)
            return MarkListing(self.db, stored.policy).page(c, of_plan, after, limit)

    def places_of(self, instance: str, text: str) -> "Collection[SearchedPlace]":
        """Return what a text may mean as the beginning of a key; empty: every place."""
        from sexton.insight.marks import places_of

        return places_of(self.stores.registry.vaults(instance), text) if text else ()

    def _count_objects(self, instance: str, marks: "Sequence[DueMark]") -> int:
        """Return how many objects due marks name; prefixes are listed."""
        from sexton.marks.policy import Unplaced, places

        expansions, objects = self.stores.owners.expand(instance, marks, lambda: None), 0
        for mark in marks:
            with suppress(Unplaced):
                for place in places(mark, expansions.get(mark.ref)):
                    objects += len(place.keys or ())
                    if place.prefix is not None:
                        vault = self.stores.vaults_of_any_round.get(instance, place.vault)
                        objects += sum(map(len, vault.list(place.prefix)))
        return objects

    def due_items(self, instance: str, marks_per_kind: int) -> "Iterator[Item]":
        """Yield keys and prefixes that some due marks of each kind would delete; marks of live objects are left out."""
        from sexton.marks.policy import Unplaced, places
        from sexton.protection.model import Item
        from sexton.recycle.pipeline.model import Cursor

        owners, due_marks = self.stores.owners, self.stores.pipeline.due_marks
        policy = self.policy(instance)
        for kind, cutoff in self.stores.plans.due_instants(instance, policy).agreed.items():
            due = due_marks.select_due(instance, kind, cutoff, Cursor(), marks_per_kind)
            expansions = owners.expand(instance, due, lambda: None) if due else {}
            live = owners.live(instance, due, lambda: None) if due else ()
            for mark in due:
                with suppress(Unplaced):  # then one of its places names no vault
                    for place in places(mark, expansions.get(mark.ref)) if mark.ref not in live else ():
                        yield from (Item(place.vault, key) for key in place.keys or ())
                        if place.prefix is not None:
                            yield Item(place.vault, place.prefix, prefix=True)

    def cost(self, plan: "Plan") -> "Estimate":
        """Estimate the cost of a plan from the configured prices and the rate of the instance's last rounds."""
        from sexton.recycle.planning.model import estimate, rate

        reports = self.stores.reports.find_round(plan.instance, RATE_SAMPLE_ROUNDS)
        prices = self.settings.prices
        return estimate(
            plan,
            rate(reports),
            list_price=prices.list_per_1000_requests,
            delete_price=prices.delete_per_1000_requests,
            currency=prices.currency,
        )
