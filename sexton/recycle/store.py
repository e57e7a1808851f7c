"""Rounds, as rows: opened under a lease, counted as the instance's turn, closed with a report."""

from sqlalchemy import Connection, and_, delete, exists, insert, select, tuple_, update

from sexton.control.store import ControlStore
from sexton.crashpoints import reached
from sexton.db.engine import Database
from sexton.lease.store import LeaseStore
from sexton.recycle import policy as rules
from sexton.recycle.counters import count_round
from sexton.recycle.model import FAILED, SUCCEEDED, CloseOrder, Opened, Policy, RoundReport
from sexton.recycle.plans import PlanStore
from sexton.recycle.port import NotEnabled, PlanRefused
from sexton.recycle.reports import Reports, build
from sexton.registry.store import Registry

JOB = "recycle"
HISTORY_DAYS = 30
HISTORY_ROWS_A_ROUND = 100_000


class RoundStore(PlanStore, Reports):
    """Implements ``recycle.port.Rounds``: everything about rounds and plans as rows."""

    def __init__(self, db: Database, leases: LeaseStore, controls: ControlStore, interval_seconds: int) -> None:
        """``interval_seconds``: from one turn of an instance to its next."""
        self._db = db
        self._leases = leases
        self._controls = controls
        self._interval_ms = interval_seconds * 1000

    def open(self, instance: str, run_id: str, plan: int | None, policy: Policy) -> Opened:
        """Acquire the lease and open the round of this run; repeating it returns the same round.

        Raises:
            Halted: a stop, a list or a window keeps the instance.
            LeaseBusy: another round works on the instance, or was killed less than a lease ago.
            NoFreeSlot: as many rounds run as may run at once.
            NotEnabled: a plan is to be applied to an instance that only observes.
            PlanRefused: the plan does not exist, was applied, or is another instance's.
        """
        registry = Registry(self._db)
        enabled = registry.instance(instance).mode == "enabled"
        if plan is not None and not enabled:
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        self._controls.check(instance)
        lease = self._leases.acquire(instance, JOB, run_id)
        try:
            made = self._open_row(instance, run_id, plan)
        except PlanRefused:
            self._leases.free(lease)
            raise
        names = tuple(v.name for v in registry.vaults(instance))
        reached("round.opened")
        return Opened(round=made, lease=lease, may_delete=enabled, policy=policy, vaults=names)

    def release(self, opened: Opened, why: str) -> None:
        """Give the lease back while the round waits (paused, backing off), and say why."""
        t = self._db.t.round
        with self._db.write() as c:
            waits = {"waiting": why[:1000], "waiting_since": self._db.now(c)}
            c.execute(update(t).where(t.c.id == opened.round, t.c.state == "RUNNING").values(**waits))
        self._leases.free(opened.lease)

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
                ended = {"state": "FAILED", "ended_at": now, "waiting": None, "waiting_since": None}
                c.execute(update(round_).where(silent).values(**ended))
                values = {"instance": instance, "run_id": run_id, "plan": plan, "started_at": now}
                made = c.execute(insert(round_).values(**values, state="RUNNING").returning(round_.c.id)).scalar_one()
                self._take_turn(c, instance, now)
            c.execute(update(round_).where(round_.c.id == made).values(waiting=None, waiting_since=None))
            return int(made)

    def _take_turn(self, c: Connection, instance: str, now: int) -> None:
        """Count this round as the instance's turn; until it ends another try is due at once (it may be terminated)."""
        t = self._db.t.instance
        before = c.execute(select(t.c.turn_at).where(t.c.id == instance)).scalar_one()
        turn_at = rules.turn(before, self._interval_ms, now)
        c.execute(update(t).where(t.c.id == instance).values(turn_at=turn_at, retry_at=now))

    def close(self, order: CloseOrder) -> RoundReport:
        """End the round, free the lease and store the report; repeating it returns the stored one."""
        t = self._db.t
        round_ = order.opened.round
        with self._db.write() as c:
            stored = c.execute(select(t.round.c.report).where(t.round.c.id == round_)).scalar_one()
            if stored is not None:
                report = RoundReport.model_validate(stored)
            else:
                report = build(self._db, c, order)
                now = self._db.now(c)
                report = report.model_copy(update={"ended_at": now})
                # The column is coarse: whether it ran to its end. The report says how it ended.
                state = "SUCCEEDED" if report.state == SUCCEEDED else "FAILED"
                ended = {"state": state, "ended_at": now, "report": report.model_dump(mode="json"), "waiting": None}
                if order.opened.may_delete:  # plan before round, as ``open`` does
                    c.execute(update(t.plan).where(t.plan.c.id == order.plan).values(state="APPLIED"))
                c.execute(update(t.round).where(t.round.c.id == round_).values(**ended))
                self._end_turn(c, report, now)
                count_round(self._db, c, report)
                self._forget_history(c, report.instance, now)
        reached("round.closed")
        self._leases.free(order.opened.lease)
        return report

    def _end_turn(self, c: Connection, report: RoundReport, now: int) -> None:
        """Say when the instance is tried again, and whether this was a success: a vault at fault is none."""
        t = self._db.t.instance
        failures = c.execute(select(t.c.failures).where(t.c.id == report.instance)).scalar_one()
        values: dict[str, int | None] = {"retry_at": rules.retry_at(report, failures, now)}
        if report.state == FAILED or report.faults:
            values["failures"] = failures + 1
        elif report.state == SUCCEEDED:
            values |= {"failures": 0, "last_success_at": now}
        c.execute(update(t).where(t.c.id == report.instance).values(**values))

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
