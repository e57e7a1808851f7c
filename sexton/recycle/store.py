"""Plans, rounds and their reports, as rows."""

from sqlalchemy import Connection, and_, case, delete, exists, func, insert, select, tuple_, update

from sexton.db.engine import Database
from sexton.lease.store import LeaseStore
from sexton.marks.batches import Batches
from sexton.recycle import policy as rules
from sexton.recycle.model import (
    HELD_BY_OWNER,
    HELD_BY_VAULT,
    CloseOrder,
    KindPlan,
    Opened,
    Plan,
    Policy,
    RoundReport,
    Tally,
)
from sexton.recycle.port import NotEnabled, PlanRefused
from sexton.registry.store import Registry

JOB = "recycle"
HISTORY_DAYS = 30
HISTORY_ROWS_A_ROUND = 100_000
UNKNOWN_KIND = "unknown kind, no retention set"


class RoundStore:
    """Implements ``recycle.port.Rounds``."""

    def __init__(self, db: Database, leases: LeaseStore) -> None:
        self._db = db
        self._leases = leases

    def open(self, instance: str, run_id: str, plan: int | None, policy: Policy) -> Opened:
        """Acquire the lease and open the round of this run; repeating it returns the same round.

        Raises:
            LeaseBusy: another round works on the instance.
            NotEnabled: a plan is to be applied to an instance that only observes.
            PlanRefused: the plan does not exist, was applied, or is another instance's.
        """
        registry = Registry(self._db)
        enabled = registry.instance(instance).mode == "enabled"
        if plan is not None and not enabled:
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        lease = self._leases.acquire(instance, JOB, run_id)
        try:
            made = self._open_row(instance, run_id, plan)
        except PlanRefused:
            self._leases.free(lease)
            raise
        names = tuple(v.name for v in registry.vaults(instance))
        return Opened(round=made, lease=lease, may_delete=enabled, policy=policy, vaults=names)

    def _open_row(self, instance: str, run_id: str, plan: int | None) -> int:
        round_, plans = self._db.t.round, self._db.t.plan
        with self._db.write() as c:
            made = c.execute(select(round_.c.id).where(round_.c.run_id == run_id)).scalar_one_or_none()
            if made is None:
                if plan is not None:
                    this = and_(plans.c.id == plan, plans.c.instance == instance, plans.c.state == "PLANNED")
                    if c.execute(update(plans).where(this).values(state="APPLYING")).rowcount != 1:
                        raise PlanRefused(
                            f"plan {plan} is not an open plan of {instance}; make one: sexton plan {instance}"
                        )
                now = self._db.now(c)
                # Whoever opened these held the lease before us and is gone without a word (terminated, say).
                silent = and_(round_.c.instance == instance, round_.c.state == "RUNNING")
                left = c.execute(select(round_.c.plan).where(silent, round_.c.plan.is_not(None))).scalars().all()
                c.execute(update(plans).where(plans.c.id.in_(left)).values(state="APPLIED"))
                c.execute(update(round_).where(silent).values(state="FAILED", ended_at=now))
                values = {"instance": instance, "run_id": run_id, "plan": plan, "started_at": now}
                made = c.execute(insert(round_).values(**values, state="RUNNING").returning(round_.c.id)).scalar_one()
            return int(made)

    def plan(self, instance: str, policy: Policy, by: str) -> Plan:
        """Fix cutoffs and counts and store them; what it costs follows what is due.

        Raises:
            UnknownInstance: no such instance.
        """
        Registry(self._db).instance(instance)
        kinds = Batches(self._db).kinds(instance)
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
            left = select(func.count()).where(mark.c.instance == instance, mark.c.state == "CLAIMED")
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

    def report(self, round_: int) -> RoundReport:
        """Return the stored report of a round that has ended."""
        wanted = select(self._db.t.round.c.report).where(self._db.t.round.c.id == round_)
        with self._db.read() as c:
            return RoundReport.model_validate(c.execute(wanted).scalar_one())

    def find_round(self, instance: str, last: int = 1) -> list[RoundReport]:
        """Return the newest reports of an instance, newest first; a running round has no report yet."""
        t = self._db.t.round
        wanted = select(t.c.report).where(t.c.instance == instance, t.c.report.is_not(None))
        with self._db.read() as c:
            return [
                RoundReport.model_validate(r) for r in c.execute(wanted.order_by(t.c.id.desc()).limit(last)).scalars()
            ]

    def close(self, order: CloseOrder) -> RoundReport:
        """End the round, free the lease and store the report; repeating it returns the stored one."""
        t = self._db.t
        round_ = order.opened.round
        with self._db.write() as c:
            stored = c.execute(select(t.round.c.report).where(t.round.c.id == round_)).scalar_one()
            if stored is not None:
                report = RoundReport.model_validate(stored)
            else:
                report = self._report(c, order)
                now = self._db.now(c)
                ended = {"state": report.state, "ended_at": now, "report": report.model_dump(mode="json")}
                if order.opened.may_delete:  # plan before round, as ``open`` does
                    c.execute(update(t.plan).where(t.plan.c.id == order.plan).values(state="APPLIED"))
                c.execute(update(t.round).where(t.round.c.id == round_).values(**ended))
                self._forget_history(c, report.instance, now)
        self._leases.free(order.opened.lease)
        return report

    def _report(self, c: Connection, order: CloseOrder) -> RoundReport:
        t, instance = self._db.t, order.opened.lease.instance
        rows = c.execute(
            select(t.tally).where(t.tally.c.round == order.opened.round).order_by(t.tally.c.kind, t.tally.c.vault)
        )
        tallies = tuple(Tally(**r._mapping) for r in rows)
        left = and_(t.mark.c.instance == instance, t.mark.c.state == "CLAIMED", t.mark.c.swept_at.is_(None))
        waiting = c.execute(select(func.count()).where(left, t.mark.c.quarantined_reason.is_(None))).scalar_one()
        sums = {
            n: sum(getattr(tally, n) for tally in tallies) for n in Tally.model_fields if n not in ("kind", "vault")
        }
        return RoundReport(
            round=order.opened.round,
            instance=instance,
            plan=order.plan,
            state=order.outcome,
            observed=not order.opened.may_delete,
            error=order.error,
            scanned=order.scanned,
            due=order.due,
            quarantined=order.quarantined,
            waiting=waiting,
            held=order.held,
            faults=sum(n for who, n in order.held.items() if who.startswith((HELD_BY_VAULT, HELD_BY_OWNER))),
            tallies=tallies,
            **sums,
        )

    def _forget_history(self, c: Connection, instance: str, now: int) -> None:
        history = self._db.t.mark_history
        edge = now - HISTORY_DAYS * 86_400_000
        # While the parent is still marked its undrop must see that a child is gone.
        mark = self._db.t.mark
        parent_marked = exists().where(
            mark.c.instance == history.c.instance,
            mark.c.kind == history.c.parent_kind,
            mark.c.id == history.c.parent_id,
        )
        old = (
            select(history.c.kind, history.c.id)
            .where(history.c.instance == instance, history.c.gone_at < edge, ~parent_marked)
            .limit(HISTORY_ROWS_A_ROUND)
        )
        named = tuple_(history.c.kind, history.c.id).in_(old)
        c.execute(delete(history).where(history.c.instance == instance, named))
