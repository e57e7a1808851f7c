"""Rows of plans, and their approvals: which await one, what became of each, whether a plan may still be applied.

Awaiting an approval is a row, never a running workflow. A plan is applied as it was reviewed, or not at all.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, insert, select, update

from sexton.database.contract_errors import check_text
from sexton.database.engine import Database, now_once
from sexton.database.rows import newest
from sexton.kernel.errors import WrongUsage
from sexton.marks.policy import goes_beyond
from sexton.operators.holds.store import REASON_CHARACTERS
from sexton.recycle.model import DAY_MS, PlanRefused, UnknownPlan
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import KindPlan, Plan, PlanRow, PlanState, Policy
from sexton.recycle.planning.sql.measure import Measure, no_heartbeat, policy_of

EXPIRES_MS = DAY_MS
"""How long a plan can be applied, or awaits approval; then another one is made with that day's numbers."""
NO_APPROVAL = {"approved_by": None, "approved_at": None}
"""Columns of a plan that has to be approved before it is applied, or applied again."""
REJECTED_MS = 7 * DAY_MS
"""How long kinds of a rejected plan need an approval, however well they fit into the limits by then."""

BEGINNING_MS = 60_000
"""An approval that is younger belongs to a round that is being started, or begins as soon as a worker runs it."""


class ApprovalStore:
    """What happens to a plan after it was made."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def state(self, plan: int) -> str:
        """Return a plan's state as it is shown; empty where there is no such plan."""
        t = self._db.t.plan
        with self._db.read() as c:
            row = c.execute(select(t).where(t.c.id == plan)).one_or_none()
            return "" if row is None else shown_state(row, self._db.now(c))

    def plan(self, plan: int) -> PlanRow:
        """Return a plan as it is listed, or raise ``PlanRefused``."""
        with self._db.read() as c:
            return plan_row(self._row(c, plan), self._db.now(c))

    def _row(self, c: Connection, plan: int, *, lock: bool = False, of: str | None = None) -> Any:
        """Return a plan's row, or raise ``UnknownPlan``; ``of``: raise ``PlanRefused`` if it is not this instance's."""
        query = select(self._db.t.plan).where(self._db.t.plan.c.id == plan)
        row = c.execute(query.with_for_update() if lock else query).one_or_none()
        if of is not None and (row is None or row.instance != of):
            raise PlanRefused(f"plan {plan} is not an open plan of {of}; {_remedy(of)}")
        if row is None:
            raise UnknownPlan(plan)
        return row

    def plans(self, instance: str | None = None, last: int = 20, before: int | None = None) -> Sequence[PlanRow]:
        """Return the newest plans, newest first, and every older one that awaits approval.

        ``before``: only plans with lower numbers, and no further ones.
        """
        t = self._db.t.plan
        with self._db.read() as c:
            now = self._db.now(c)
            plans = [plan_row(r, now) for r in c.execute(newest(t, last, instance, before))]
            if before is not None:
                return plans
            listed = {plan.id for plan in plans}
            return [*plans, *(plan for plan in self.waiting(c, instance) if plan.id not in listed)]

    def waiting(self, c: Connection, instance: str | None = None) -> Sequence[PlanRow]:
        """Return the plans that await approval now, the newest first."""
        t = self._db.t.plan
        awaiting = select(t, now_once().label("now")).where(self._awaiting(now_once()))
        if instance is not None:
            awaiting = awaiting.where(t.c.instance == instance)
        return [plan_row(r, r.now) for r in c.execute(awaiting.order_by(t.c.id.desc()))]

    def check_apply(self, plan: int, instance: str, policy: Policy) -> None:
        """Refuse a plan that cannot be applied now, as ``begin_apply`` would.

        Raises:
            PlanRefused: there is no such plan of the instance, it is not open, or the world has changed since.
        """
        with self._db.read() as c:
            self._check(c, plan, instance, policy)

    def begin_apply(
        self,
        c: Connection,
        plan: int,
        instance: str,
        policy: Policy,
        heartbeat: Callable[[], None] = no_heartbeat,
    ) -> None:
        """Begin to apply a plan that an operator has approved, in the transaction that opens its round.

        ``heartbeat`` is called between pages of the count, by which the plan is compared with what is due now.

        Raises:
            PlanRefused: there is no such plan of the instance, it is not open, the world has changed since, or no
                operator has approved it: everyone who reaches Temporal can start a round.
        """
        t = self._db.t.plan
        approved_at = c.execute(select(t.c.approved_at).where(t.c.id == plan).with_for_update()).scalar_one_or_none()
        self._check(c, plan, instance, policy, heartbeat)
        if approved_at is None:
            raise PlanRefused(f"no operator has approved plan {plan}; to apply it: sexton apply {plan}")
        c.execute(update(t).where(t.c.id == plan).values(state=PlanState.APPLYING))

    @contextmanager
    def approving(self, plan: int, instance: str, by: str) -> Iterator[None]:
        """Approve a plan, so that a round may apply it; withdraw the approval if its round was not started.

        The block starts the round, and ends then. ``check_apply`` compares the plan with what is due, before this and
        as it begins.

        Raises:
            PlanRefused: there is no such plan of the instance, it is not open, or someone approved it just now.
        """
        t = self._db.t.plan
        with self._db.write() as c:
            row = self._open_row(c, plan, instance, lock=True)
            now, earlier = self._db.now(c), {name: getattr(row, name) for name in NO_APPROVAL}
            if row.approved_at is not None and row.approved_at > now - BEGINNING_MS:
                see = f"and its round begins; see: sexton round list {instance}"
                raise PlanRefused(f"plan {plan} was approved by {row.approved_by} just now, {see}")
            approval = {"approved_by": by, "approved_at": now}
            c.execute(update(t).where(t.c.id == plan).values(**approval))
        try:
            yield
        except BaseException:  # also Ctrl-C: an approval without a round would admit any that someone starts later
            # Another operator's approval stays: the round that was started with it may not have begun yet.
            with self._db.write() as c:
                is_unbegun = and_(t.c.id == plan, t.c.state == PlanState.PLANNED, t.c.rejected.is_(False))
                is_own = and_(*(t.c[name] == value for name, value in approval.items()))
                c.execute(update(t).where(is_unbegun, is_own).values(**earlier))
            raise

    def reject(self, plan: int, why: str, by: str) -> PlanRow:
        """Reject a plan that awaits approval: its kinds need an approval for 7 days, or until a later plan is applied.

        Raises:
            BadInput: no reason is given.
            PlanRefused: the plan awaits no approval.
            UnknownPlan: there is no such plan.
        """
        if not 0 < len(why.strip()) <= REASON_CHARACTERS:
            raise WrongUsage(
                f"give a reason of 1 to {REASON_CHARACTERS} characters: others must know why it is not deleted"
            )
        check_text(why, by)
        t = self._db.t.plan
        with self._db.write() as c:
            row, now = self._row(c, plan, lock=True), self._db.now(c)
            if (state := shown_state(row, now)) != PlanState.AWAITING:
                raise PlanRefused(f"plan {plan} awaits no approval: {state}; see: sexton plan list")
            answer = f"rejected by {by}: {why}"
            values = {"rejected": True, "approved_by": by, "approved_at": now, "expires_at": now, "awaits": answer}
            c.execute(update(t).where(t.c.id == plan).values(**values))
            return plan_row(self._row(c, plan), now)

    def rejected_kinds(self, c: Connection, instance: str, now: int) -> dict[str, str]:
        """Return kinds rejected in the last 7 days and not approved since, with who rejected them and why."""
        t = self._db.t.plan
        answered = and_(t.c.instance == instance, t.c.approved_at > now - REJECTED_MS)
        rejected: dict[str, str] = {}
        for row in c.execute(select(t).where(answered).order_by(t.c.approved_at, t.c.id)):
            for kind in Plan.model_validate(row.body).kinds:
                if row.rejected:
                    rejected[kind.kind] = f"plan {row.id} with it was {row.awaits}"
                elif row.state in (PlanState.APPLYING, PlanState.APPLIED):  # PLANNED again: nothing of it was deleted
                    rejected.pop(kind.kind, None)
        return rejected

    def _check(
        self,
        c: Connection,
        plan: int,
        instance: str,
        policy: Policy,
        heartbeat: Callable[[], None] = no_heartbeat,
    ) -> None:
        row = self._open_row(c, plan, instance)
        make_another = _remedy(instance)
        planned = Plan.model_validate(row.body)
        policy = policy_of(self._db, c, instance, policy).policy
        if row.policy_version != policy.version:
            changes = rules.explain_policy_change(planned.policy, policy)
            raise PlanRefused(f"settings changed since plan {plan}: {changes}; {make_another}")
        measure = Measure(self._db, c, instance, policy, heartbeat)
        if not planned.kinds and not planned.claimed:
            raise PlanRefused(f"plan {plan} has nothing to delete; {make_another}")
        if changed := rules.explain_difference(planned.kinds, [measure.measure_again(k) for k in planned.kinds]):
            raise PlanRefused(f"plan {plan} no longer matches what is due: {changed}; {make_another}")

    def _open_row(self, c: Connection, plan: int, instance: str, *, lock: bool = False) -> Any:
        """Return the row of an open plan of an instance; raise ``PlanRefused`` if it is none."""
        row = self._row(c, plan, lock=lock, of=instance)
        if (state := shown_state(row, self._db.now(c))) not in (PlanState.PLANNED, PlanState.AWAITING):
            why = f": approved by {row.approved_by}" if row.approved_by else ""
            if state == PlanState.EXPIRED:
                why = ": it is more than a day old"
            elif state == PlanState.REJECTED:
                why = f": {row.awaits}"
            raise PlanRefused(f"plan {plan} of {instance} is {state} and cannot be applied{why}; {_remedy(instance)}")
        return row

    def open_plans(self, c: Connection, instance: str, now: int, *, lock: bool = False) -> Sequence[Plan]:
        """Return the plans of an instance that await approval, newest first; locked, none can be applied."""
        t = self._db.t.plan
        awaiting = and_(t.c.instance == instance, self._awaiting(now))
        columns = select(t.c.id, t.c.body).where(awaiting).order_by(t.c.id.desc())
        rows = c.execute(columns.with_for_update() if lock else columns)
        return [Plan.model_validate(r.body | {"id": r.id}) for r in rows]

    def replace_open(
        self, c: Connection, awaiting: Plan, by: str, heartbeat: Callable[[], None] = no_heartbeat
    ) -> int | None:
        """Return the plan that awaits approval: one made before that still holds, or this one; None: nothing does.

        Every other open plan of the instance expires now: an operator must not review outdated numbers. ``heartbeat``
        is called between pages of the count.
        """
        measure = Measure(self._db, c, awaiting.instance, awaiting.policy, heartbeat)
        t = self._db.t.plan
        open_plans = self.open_plans(c, awaiting.instance, awaiting.created_at, lock=True)
        current = next((plan for plan in open_plans if still_holds(measure, plan, awaiting)), None)
        outdated = [plan.id for plan in open_plans if current is None or plan.id != current.id]
        since = awaits_since(self._db, c, awaiting) if current is None and awaiting.kinds else None
        if outdated:
            c.execute(update(t).where(t.c.id.in_(outdated)).values(expires_at=awaiting.created_at))
        if current is not None:
            return self._narrow(c, measure, current, awaiting)
        if not awaiting.kinds:
            return None
        plan = insert_plan(self._db, c, awaiting.model_copy(update={"awaits_since": since}), by)
        reasons = "; ".join(kind.awaits for kind in plan.kinds)
        commands = f"approve: sexton apply {plan.id}; reject: sexton plan reject {plan.id} --reason TEXT"
        plan = plan.model_copy(update={"awaits": f"{reasons}; {commands}"})
        values = {"awaits": plan.awaits, "expires_at": awaiting.created_at + EXPIRES_MS, "body": plan.model_dump()}
        c.execute(update(t).where(t.c.id == plan.id).values(**values))
        return plan.id

    def _narrow(self, c: Connection, measure: Measure, plan: Plan, awaiting: Plan) -> int:
        """Leave out of a plan what has fallen due by the agreed retention meanwhile: this round takes it."""
        since = {kind.kind: kind.since for kind in awaiting.kinds}
        narrowed: dict[str, KindPlan] = {}
        for kind in plan.kinds:
            if goes_beyond(since[kind.kind], kind.since):
                measured = measure.measure_due(kind.kind, kind.cutoff, since[kind.kind])
                narrowed[kind.kind] = measured.model_copy(update={"awaits": kind.awaits})
        if narrowed:
            kinds = tuple(narrowed.get(kind.kind, kind) for kind in plan.kinds)
            t = self._db.t.plan
            body = plan.model_copy(update={"kinds": kinds}).model_dump()
            c.execute(update(t).where(t.c.id == plan.id).values(body=body))
        return plan.id

    def _awaiting(self, now: int | ColumnElement[int]) -> ColumnElement[bool]:
        t = self._db.t.plan
        return and_(t.c.awaits.is_not(None), t.c.state == PlanState.PLANNED, t.c.expires_at > now)


def _remedy(instance: str) -> str:
    return f"make a new one: sexton plan {instance}"


def insert_plan(db: Database, c: Connection, plan: Plan, by: str) -> Plan:
    """Store a plan and return it with its number."""
    t = db.t.plan
    values = {
        "instance": plan.instance,
        "created_at": plan.created_at,
        "state": PlanState.PLANNED,
        "planned_by": by,
        "policy_version": plan.policy.version,
        "body": plan.model_dump(),
    }
    number = c.execute(insert(t).values(**values).returning(t.c.id)).scalar_one()
    return plan.model_copy(update={"id": number})


def shown_state(row: Any, now: int) -> PlanState:
    """Return a plan's state as it is shown, by its row: no plan can be applied a day after it was made."""
    if row.state != PlanState.PLANNED:
        return PlanState(row.state)
    if row.awaits is None:
        return PlanState.PLANNED if row.created_at + EXPIRES_MS > now else PlanState.EXPIRED
    if row.rejected:
        return PlanState.REJECTED
    if row.expires_at > now:
        return PlanState.AWAITING
    return PlanState.EXPIRED if row.expires_at == row.created_at + EXPIRES_MS else PlanState.REPLACED


def plan_row(row: Any, now: int) -> PlanRow:
    """Return a plan as it is listed, by its row."""
    plan = Plan.model_validate(row.body)
    return PlanRow(
        state=shown_state(row, now),
        marks=sum(k.unheld.marks for k in plan.kinds),
        objects=sum(k.unheld.objects for k in plan.kinds),
        bytes=sum(k.unheld.bytes for k in plan.kinds),
        kinds=tuple(f"{k.unheld.marks:,} {k.kind}" for k in plan.kinds),
        held_marks=plan.held.marks,
        held_objects=plan.held.objects,
        since=plan.awaits_since,
        awaits=row.awaits or "",
        approved_by=row.approved_by or "",
        **{n: getattr(row, n) for n in ("id", "instance", "created_at", "planned_by", "expires_at", "approved_at")},
    )


def awaits_since(db: Database, c: Connection, awaiting: Plan) -> int:
    """Return since when an approval is awaited: a plan that follows an unanswered one takes over its instant."""
    t, now = db.t.plan, awaiting.created_at
    of_instance = and_(t.c.instance == awaiting.instance, t.c.awaits.is_not(None))
    row = c.execute(select(t).where(of_instance).order_by(t.c.id.desc()).limit(1)).one_or_none()
    if row is None or row.state != PlanState.PLANNED:
        return now
    # A plan whose time was cut short was outdated: nothing awaited approval then. One that expired a day ago or
    # longer: no operator has answered since.
    expired_lately = row.expires_at == row.created_at + EXPIRES_MS and row.expires_at > now - DAY_MS
    if expired_lately or row.expires_at > now:
        return Plan.model_validate(row.body).awaits_since or now
    return now


def still_holds(measure: Measure, plan: Plan, awaiting: Plan) -> bool:
    """Return whether an open plan has the kinds, the policy and the marks that await approval now."""
    in_part = {kind.kind: kind.since > 0 for kind in awaiting.kinds}
    if plan.policy.version != awaiting.policy.version or in_part != {k.kind: k.since > 0 for k in plan.kinds}:
        return False
    return not rules.explain_difference(plan.kinds, [measure.measure_again(kind) for kind in plan.kinds])


def withdraw(db: Database, plan: int, instance: str) -> None:
    """End the approval of a plan of an instance whose round was refused, halted or cancelled before it began."""
    t = db.t.plan
    is_open = and_(t.c.state == PlanState.PLANNED, t.c.rejected.is_(False))
    with db.write() as c:
        c.execute(update(t).where(t.c.id == plan, t.c.instance == instance, is_open).values(**NO_APPROVAL))
