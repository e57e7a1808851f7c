"""Plans, as rows: what a round may delete, fixed before it begins, and what of it awaits approval.

A retention that is shorter than the one that an operator has agreed to makes nothing due without approval.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, false, func, not_, or_, select, update

from sexton.database.engine import Database
from sexton.database.rows import beyond
from sexton.marks.kept import KeepReason, Kept, by_plan
from sexton.marks.model import NOTHING_DUE, Cutoff, DueMark
from sexton.marks.policy import due_by
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.orphans import ORPHAN, unapproved
from sexton.marks.sql.rows import due_columns, is_due, read_due, waits
from sexton.owners.port import OwnerSilent
from sexton.recycle.model import UnknownPlan
from sexton.recycle.pipeline.sql.batches import limited_objects_claimed
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import DueKind, InstancePolicy, KindPlan, Plan, PlanFacts, Policy, Shift
from sexton.recycle.planning.policy import Allowance, build_for_operator, build_for_round
from sexton.recycle.planning.sql.approvals import ApprovalStore, insert_plan
from sexton.recycle.planning.sql.measure import Measure, count_quarantined, find_kinds, no_heartbeat, policy_of

PAGE_MARKS = 1_000
CountObjects = Callable[[Sequence[DueMark]], int]
"""List what some due marks name, and return how many objects that are."""
LiveObjects = Callable[[], int | None]
"""Count the owner's live objects; None where the owner cannot; raises ``OwnerSilent``."""


class DueInstants(NamedTuple):
    """Kind → which of its marks are due: by the agreed retention, and by the one in force."""

    agreed: Mapping[str, Cutoff]
    in_force: Mapping[str, Cutoff]


class PlanStore:
    """Makes and finds plans, and the retentions that operators have agreed to, a column of ``instance``.

    ``approvals``: what happens to a plan after it was made.
    """

    def __init__(self, db: Database, keepers: Sequence[Keeper]) -> None:
        """``keepers``: in order of precedence; plans leave out what they foresee to block."""
        self._db, self._keepers = db, keepers
        self.approvals = ApprovalStore(db)

    def plan_for_operator(
        self,
        instance: str,
        policy: Policy,
        by: str,
        live_objects: LiveObjects = lambda: None,
        count_objects: CountObjects | None = None,
    ) -> Plan:
        """Return a plan of everything that is due, to be reviewed and applied by an operator; store it unless empty.

        ``count_objects``: lists what the marks name, so that the plan has counts instead of estimates.

        Raises:
            UnknownInstance: no such instance.
        """
        facts = self._read(instance, policy)
        if count_objects is not None:
            counted: list[DueKind] = []
            for due in facts.due:
                whole = due.whole
                if whole.estimated:
                    objects = sum(map(count_objects, self.unheld_marks(instance, whole)))
                    objects += sum(held.objects for held in whole.held)
                    whole = whole.model_copy(update={"objects": objects, "estimated": False, "guessed": False})
                counted.append(due._replace(whole=whole, agreed=whole if due.agreed is due.whole else due.agreed))
            facts = facts._replace(due=counted)
        plan = build_for_operator(facts, _limit(facts, live_objects))
        return self._store(plan, by) if plan.kinds or plan.claimed else plan

    def _store(self, plan: Plan, by: str) -> Plan:
        with self._db.write() as tx:
            return insert_plan(self._db, tx, plan, by)

    def plan_for_round(
        self,
        instance: str,
        policy: Policy,
        by: str,
        live_objects: LiveObjects = lambda: None,
        heartbeat: Callable[[], None] = no_heartbeat,
    ) -> Plan:
        """Fix cutoffs and counts for a round and store them; what needs an approval waits in a plan of its own.

        A plan without marks is not stored: its number is 0. ``live_objects`` counts the owner's live objects.
        ``heartbeat`` is called between two pages of the count; it raises if the count must stop. ``UnknownInstance``:
        no such instance.
        """
        facts = self._read(instance, policy, heartbeat)
        limit = _limit(facts, live_objects)
        if not facts.instance_policy.enabled:
            observed = build_for_operator(facts, limit)
            return self._store(observed, by) if observed.kinds else observed
        plan, awaiting = build_for_round(facts, limit)
        with self._db.write() as tx:
            if number := self.approvals.replace_open(tx, awaiting, by, heartbeat):
                plan = plan.model_copy(update={"kept": plan.kept | {by_plan(number): awaiting.marks}})
            # While a mark waits that was made under the longer retention, a shorter one is not agreed to.
            shortened = rules.shortened(
                facts.instance_policy.agreed or {}, facts.instance_policy.policy.retention_seconds
            )
            disputed = [due.whole.kind for due in facts.due if due.whole.kind in shortened]
            self.agree_undisputed(tx, facts.instance_policy, disputed)
            return insert_plan(self._db, tx, plan, by) if plan.kinds else plan

    def next_due(self, instance: str, policy: Policy) -> tuple[int, str] | None:
        """Return when the next mark is due that is not due yet (ms since 1970), and its kind; None: no mark waits."""
        with self._db.read() as tx:
            kinds = policy_of(self._db, tx, instance, policy).policy.retention_seconds
            now = self._db.now(tx)
            mark = self._db.t.mark
            instants: list[tuple[int, str]] = []
            for kind, retention in kinds.items():
                later = and_(mark.c.instance == instance, mark.c.kind == kind, waits(mark))
                later = and_(later, not_(is_due(mark, due_by(retention, now))))
                first = tx.execute(select(func.min(mark.c.retention_starts_at)).where(later)).scalar_one()
                if first is not None:
                    instants.append((int(first) + 1000 * retention, kind))
            return min(instants, default=None)

    def find_plan(self, plan: int) -> Plan:
        """Return a stored plan, or raise ``PlanRefused``. One that an operator applies has no limit."""
        t = self._db.t.plan
        with self._db.read() as tx:
            row = tx.execute(select(t.c.body, t.c.approved_at).where(t.c.id == plan)).one_or_none()
        if row is None:
            raise UnknownPlan(plan)
        stored = Plan.model_validate(row.body | {"id": plan})
        return stored if row.approved_at is None else stored.model_copy(update={"allowance": None})

    def due_instants(self, instance: str, policy: Policy) -> DueInstants:
        """Return what is due now by agreed retentions, and by those in force.

        By a retention that was shortened and not yet agreed to, no owner may expand or time out anything.
        """
        with self._db.read() as tx:
            instance_policy, now = policy_of(self._db, tx, instance, policy), self._db.now(tx)
        retentions = instance_policy.policy.retention_seconds
        agreed = retentions | rules.shortened(instance_policy.agreed or {}, retentions)
        return DueInstants(
            agreed={kind: due_by(seconds, now) for kind, seconds in agreed.items()},
            in_force={kind: due_by(seconds, now) for kind, seconds in retentions.items()},
        )

    def agree_first(self, instance: str, policy: Policy) -> None:
        """Agree to a policy where none is agreed yet: the operator who enables an instance knows today's settings."""
        with self._db.write() as tx:
            instance_policy = policy_of(self._db, tx, instance, policy)
            if instance_policy.agreed is None:
                self.agree_undisputed(tx, instance_policy, ())

    def agree_undisputed(self, tx: Connection, instance_policy: InstancePolicy, disputed: Sequence[str]) -> None:
        """Agree to the retentions of all kinds but those that need an approval; to the first policy as it is."""
        before = dict(instance_policy.agreed or {})
        agreed = before | {k: s for k, s in instance_policy.policy.retention_seconds.items() if k not in disputed}
        if instance_policy.agreed is None or agreed != before:
            t = self._db.t.instance
            tx.execute(update(t).where(t.c.id == instance_policy.instance).values(retentions=agreed))

    def agree_plan(self, tx: Connection, plan: int) -> None:
        """Agree to the retentions of a plan that was applied, if its operator saw everything that they make due."""
        t, instance = self._db.t.plan, self._db.t.instance
        row = tx.execute(select(t.c.instance, t.c.body, t.c.approved_at).where(t.c.id == plan)).one_or_none()
        if row is None or row.approved_at is None:
            return
        applied = Plan.model_validate(row.body)
        if not applied.whole:
            return
        of_instance = select(instance.c.retentions).where(instance.c.id == row.instance)
        before = tx.execute(of_instance).scalar_one_or_none() or {}
        agreed = {**before, **applied.policy.retention_seconds}
        tx.execute(update(instance).where(instance.c.id == row.instance).values(retentions=agreed))

    def _read(self, instance: str, policy: Policy, heartbeat: Callable[[], None] = no_heartbeat) -> PlanFacts:
        """Read what a plan is built from; the cost follows what is due."""
        with self._db.read() as tx:
            instance_policy, now = policy_of(self._db, tx, instance, policy), self._db.now(tx)
            kinds, more = find_kinds(self._db, tx, instance, instance_policy.policy.retention_seconds)
            foreseen = self._foreseen(tx, instance)
            measure = Measure(self._db, tx, instance, instance_policy.policy, heartbeat, foreseen)
            due, kept = _due(measure, instance_policy, kinds, now)
            if more:
                kept[Kept(KeepReason.UNKNOWN_KIND, f"(and at least {more:,} others)")] = more  # a mark each, or more
            quarantined = count_quarantined(self._db, tx, instance)
            kept |= {Kept(KeepReason.QUARANTINED, reason): n.marks for reason, n in quarantined.items()}
            open_plans = self.approvals.open_plans(tx, instance, now)
            orphans_wait = unapproved(self._db, tx, instance) if ORPHAN in kinds else ""
            questioned = {ORPHAN: orphans_wait} if orphans_wait else {}
            stopped_kinds = {kind.kind for plan in open_plans for kind in plan.kinds if kind.stopped}
            return PlanFacts(
                instance_policy=instance_policy,
                now=now,
                due=due,
                kept=kept,
                claimed=measure.count_claimed(now),
                used=limited_objects_claimed(self._db, tx, instance, now),
                stopped=measure.kinds_stopped_at_limit() | stopped_kinds,
                questioned=questioned | self.approvals.rejected_kinds(tx, instance, now),
            )

    def _foreseen(self, tx: Connection, instance: str) -> Mapping[Kept, ColumnElement[bool]]:
        return dict(item for keeper in self._keepers for item in keeper.foreseen(tx, instance).items())

    def unheld_marks(self, instance: str, planned: KindPlan) -> Iterator[Sequence[DueMark]]:
        """Yield pages of the marks of a planned kind that no keeper is foreseen to block."""
        mark = self._db.t.mark
        position = (mark.c.retention_starts_at, mark.c.id)
        with self._db.read() as c:
            is_held = or_(false(), *self._foreseen(c, instance).values())
        due = and_(mark.c.instance == instance, mark.c.kind == planned.kind, waits(mark), not_(is_held))
        due = and_(due, is_due(mark, planned.cutoff))
        after = (planned.begin.retention_starts_at, planned.begin.id)
        while True:
            page = select(*due_columns(mark)).where(due, beyond(position, after)).limit(PAGE_MARKS)
            with self._db.read() as c:
                marks = read_due(c, page, position)
            if not marks:
                return
            yield marks
            after = (marks[-1].retention_starts_at, marks[-1].id)


def _due(
    measure: Measure, instance_policy: InstancePolicy, kinds: Sequence[str], now: int
) -> tuple[list[DueKind], dict[Kept, int]]:
    """Return what is due of each kind, and what is kept because its kind has no retention."""
    retentions = instance_policy.policy.retention_seconds
    shortened = rules.shortened(instance_policy.agreed or {}, retentions)
    due: list[DueKind] = []
    kept: dict[Kept, int] = {}
    for kind in kinds:
        cutoff = rules.cutoff(kind, instance_policy.policy, now)
        if cutoff is None:
            kept[Kept(KeepReason.UNKNOWN_KIND, kind)] = measure.count_waiting(kind)
            continue
        whole = measure.measure_due(kind, cutoff)
        early = measure.measure_due(kind, cutoff, due_by(shortened[kind], now)) if kind in shortened else None
        if early is None:
            due.append(DueKind(whole, whole))
            continue
        agreed = measure.measure_due(kind, early.since)
        if early.marks:
            early_reason = rules.explain_early(kind, early.marks, shortened[kind], retentions[kind])
            due.append(DueKind(whole, agreed, early, early_reason))
        else:  # of the same marks, but with the agreed cutoff: workers refuse a later one without an approval
            due.append(DueKind(agreed, agreed))
    return due, kept


def _limit(facts: PlanFacts, live_objects: LiveObjects) -> Allowance | None:
    policy = facts.instance_policy.policy
    if not facts.needs_limit:
        return None
    if policy.unlimited is None or policy.max_delete_fraction >= 1:
        return rules.allowance(policy, None)  # no count is needed, and counting may take long
    try:
        return rules.allowance(policy, live_objects())
    except OwnerSilent as e:
        return rules.allowance(policy, None, str(e))


def shifts(db: Database, instance: str, before: Policy, after: Policy) -> Iterator[Shift]:
    """Yield what a changed retention would make due or no longer due, kind by kind, before the setting is changed."""
    with db.read() as c:
        now, old, new = db.now(c), policy_of(db, c, instance, before), policy_of(db, c, instance, after)
        measure = Measure(db, c, instance, new.policy)
        retentions = {*old.policy.retention_seconds, *new.policy.retention_seconds}
        for kind in find_kinds(db, c, instance, retentions).names:
            old_seconds, new_seconds = old.policy.retention_seconds.get(kind), new.policy.retention_seconds.get(kind)
            if old_seconds == new_seconds:
                continue
            # Only the shorter retention makes these due. Without a retention nothing is due, as if it were endless.
            shorter, *longer = sorted(s for s in (old_seconds, new_seconds) if s is not None)
            since = due_by(longer[0], now) if longer else NOTHING_DUE
            moved = measure.measure_due(kind, due_by(shorter, now), since)
            more = new_seconds is not None and (old_seconds is None or new_seconds < old_seconds)
            agreed = new.agreed is None or new_seconds is None or new_seconds >= new.agreed.get(kind, new_seconds)
            yield Shift(
                instance=instance,
                before=old_seconds,
                after=new_seconds,
                more=more,
                asks=new.enabled and more and moved.marks > 0 and not agreed,
                **moved.model_dump(include={"kind", "marks", "objects", "estimated", "bytes"}),
            )
