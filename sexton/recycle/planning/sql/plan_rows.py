"""Rows of plans: store one, convert one to what is listed, and tell whether it is still open and true."""

from typing import Any

from sqlalchemy import Connection, and_, insert, select, update

from sexton.database.engine import Database
from sexton.recycle.model import DAY_MS
from sexton.recycle.planning import limits
from sexton.recycle.planning.model import Plan, PlanRow, PlanState
from sexton.recycle.planning.sql.measure import Measure

EXPIRES_MS = DAY_MS
"""How long a plan can be applied, or awaits approval; then another one is made with that day's numbers."""
NO_APPROVAL = {"approved_by": None, "approved_at": None}
"""Columns of a plan that has to be approved before it is applied, or applied again."""


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


def why_closed(row: Any, state: str) -> str:
    """Return why a plan is no longer open, and who closed it."""
    if state == PlanState.EXPIRED:
        return ": it is more than a day old"
    if state == PlanState.REJECTED:
        return f": {row.awaits}"
    return f": approved by {row.approved_by}" if row.approved_by else ""


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
    return not limits.explain_difference(plan.kinds, [measure.measure_again(kind) for kind in plan.kinds])


def withdraw(db: Database, plan: int, instance: str) -> None:
    """End the approval of a plan of an instance whose round was refused, halted or cancelled before it began."""
    t = db.t.plan
    is_open = and_(t.c.state == PlanState.PLANNED, t.c.rejected.is_(False))
    with db.write() as c:
        c.execute(update(t).where(t.c.id == plan, t.c.instance == instance, is_open).values(**NO_APPROVAL))
