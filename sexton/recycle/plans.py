"""Plans, as rows: what a round may delete, fixed before it begins."""

from sqlalchemy import and_, case, func, insert, or_, select

from sexton.db.engine import Database
from sexton.marks.store import MarkStore
from sexton.recycle import policy as rules
from sexton.recycle.model import KindPlan, Plan, Policy
from sexton.recycle.port import PlanRefused
from sexton.registry.store import Registry

UNKNOWN_KIND = "unknown kind, no retention set"


class PlanStore:
    """Make and find plans."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def plan(self, instance: str, policy: Policy, by: str) -> Plan:
        """Fix cutoffs and counts and store them; what it costs follows what is due.

        Raises:
            UnknownInstance: no such instance.
        """
        Registry(self._db).instance(instance)
        kinds = MarkStore(self._db).kinds(instance)
        mark, plans = self._db.t.mark, self._db.t.plan
        with self._db.write() as c:
            now = self._db.now(c)
            found, held = [], {}
            for kind in kinds:
                cutoff = rules.cutoff(kind, policy, now)
                waiting = and_(mark.c.instance == instance, mark.c.kind == kind, mark.c.state == "MARKED")
                waiting = and_(waiting, mark.c.quarantined_reason.is_(None))
                if cutoff is None:
                    held[f"{UNKNOWN_KIND}: {kind}"] = c.execute(select(func.count()).where(waiting)).scalar_one()
                    continue
                length = func.jsonb_array_length if self._db.dialect == "postgresql" else func.json_array_length
                row = c.execute(
                    select(
                        func.count().label("marks"),
                        func.coalesce(func.sum(length(mark.c["keys"])), 0).label("keys"),
                        func.coalesce(func.sum(case((mark.c.prefix.is_not(None), 1), else_=0)), 0).label("prefixes"),
                        func.coalesce(func.sum(mark.c.bytes), 0).label("bytes"),
                        func.min(mark.c.ages_from).label("oldest"),
                    ).where(waiting, mark.c.ages_from <= cutoff)
                ).one()
                if row.marks:
                    found.append(KindPlan(kind=kind, cutoff=cutoff, **row._mapping))
            aside = select(mark.c.quarantined_reason, func.count()).where(
                mark.c.instance == instance, mark.c.quarantined_reason.is_not(None)
            )
            held |= {f"quarantined: {r}": n for r, n in c.execute(aside.group_by(mark.c.quarantined_reason))}
            ripe = or_(mark.c.swept_at.is_(None), mark.c.next_try_at <= now)
            left = select(func.count()).where(mark.c.instance == instance, mark.c.state == "CLAIMED", ripe)
            plan = Plan(
                instance=instance,
                created_at=now,
                policy=policy,
                kinds=tuple(found),
                held=held,
                claimed=c.execute(left).scalar_one(),
            )
            made = c.execute(
                insert(plans)
                .values(
                    instance=instance,
                    created_at=now,
                    state="PLANNED",
                    planned_by=by,
                    policy_version=policy.version,
                    body=plan.model_dump(),
                )
                .returning(plans.c.id)
            ).scalar_one()
        return plan.model_copy(update={"id": made})

    def find_plan(self, plan: int) -> Plan:
        """Return a stored plan, or raise ``PlanRefused``."""
        with self._db.read() as c:
            body = c.execute(select(self._db.t.plan.c.body).where(self._db.t.plan.c.id == plan)).scalar_one_or_none()
        if body is None:
            raise PlanRefused(f"there is no plan {plan}; make one: sexton plan INSTANCE")
        return Plan.model_validate(body | {"id": plan})

    def state(self, plan: int) -> str:
        """Return a plan's state, PLANNED, APPLYING or APPLIED; empty where there is no such plan."""
        t = self._db.t.plan
        with self._db.read() as c:
            return c.execute(select(t.c.state).where(t.c.id == plan)).scalar_one_or_none() or ""
