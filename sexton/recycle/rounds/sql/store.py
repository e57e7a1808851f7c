"""Store rounds as rows: opened under a lease, counted as the instance's schedule slot, closed with a report."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, true, update

from sexton.database.engine import AWAY, Database, first_line
from sexton.database.guard import deciding
from sexton.database.rows import add_to_counters
from sexton.kernel.crash_points import reached
from sexton.kernel.live import Live
from sexton.marks.kept import WAITS
from sexton.marks.model import BatchState, InstanceMode, Lease
from sexton.marks.sql.keeper import Keeper
from sexton.marks.sql.leases import LeaseStore, is_lease
from sexton.operators.call_log import record_work
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.operators.stores import OperatorStores
from sexton.recycle.model import (
    CANCELLED,
    FAILED,
    PARTIAL,
    STOPPED,
    SUCCEEDED,
    PlanRefused,
    RoundEnded,
    RoundReport,
    RoundState,
)
from sexton.recycle.model import JOB as JOB
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.planning.model import Plan, PlanState, Policy
from sexton.recycle.planning.policy import for_owner
from sexton.recycle.planning.sql import measure
from sexton.recycle.planning.sql.approvals import NO_APPROVAL, withdraw
from sexton.recycle.planning.sql.plans import PlanStore
from sexton.recycle.rounds import policy as policies
from sexton.recycle.rounds.model import CloseOrder, OpenedRound
from sexton.recycle.rounds.policy import RoundFacts, after_round, cancelled, counters_of, turn
from sexton.recycle.rounds.sql.old_rows import OldRows
from sexton.recycle.rounds.sql.reports import Reports, build

FOR_LEASE = "waiting for its lease: another round's end, or a free slot"
log = logging.getLogger(__name__)


class RoundStore:
    """Opens and closes rounds."""

    def __init__(
        self,
        db: Database,
        leases: LeaseStore,
        operators: OperatorStores,
        interval_seconds: int | Live[int],
        live_objects: Callable[[str], int | None] = lambda _: None,
        keepers: Sequence[Keeper] = (),
    ) -> None:
        """``interval_seconds``: from one slot of an instance to its next.

        ``live_objects`` returns an instance's number of live objects, as its owner counts them; None: unknown.
        ``keepers``: in order of precedence; what is overdue of them ends when a round opens.
        """
        self.plans = PlanStore(db, keepers)
        self.reports = Reports(db)
        self._old_rows = OldRows(db)
        self._live_objects = live_objects
        self._keepers = keepers
        self._db = db
        self._leases = leases
        self._operators = operators
        self._interval_seconds = Live.of(interval_seconds)

    def plan(
        self, instance: str, policy: Policy, by: str, heartbeat: Callable[[], None] = measure.no_heartbeat
    ) -> Plan:
        """Fix the cutoffs and counts of a plan, and store it; ``heartbeat`` is called between pages of marks.

        The running round names it from then on, so that its progress can be compared with it.
        """
        with self._db.write() as c:
            record_work(self._db, c, "plan", instance, by=by)
        plan = self.plans.plan_for_round(instance, policy, by, partial(self._live_objects, instance), heartbeat)
        if plan.id:
            t = self._db.t.round
            unplanned = and_(t.c.instance == instance, t.c.state == RoundState.RUNNING, t.c.plan.is_(None))
            with self._db.write() as c:
                c.execute(update(t).where(unplanned, t.c.waiting.is_(None)).values(plan=plan.id))
        return plan

    def open(
        self,
        instance: str,
        run_id: str,
        plan: int | None,
        policy: Policy,
        heartbeat: Callable[[], None] = measure.no_heartbeat,
    ) -> OpenedRound:
        """Acquire the lease and open the round of this run; repeating it returns the same round.

        ``heartbeat`` is called between pages of marks, where a plan is compared with what is due now.

        Raises:
            Halted: a stop, a list or a window halts the instance.
            LeaseBusy: another round works on the instance, or was killed less than a lease ago.
            NoFreeSlot: as many rounds are running as may run at once.
            NotEnabled: a plan would be applied to an instance in observe mode.
            OrderRefused: the run is that of another instance's round.
            PlanRefused: the plan does not exist, is not approved, was applied, or is another instance's.
            RoundEnded: this run's round has ended already (it was reset in Temporal).
        """
        row = self._operators.registry.instance(instance)
        enabled = row.mode == InstanceMode.ENABLED
        if plan is not None and not enabled:
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        self._operators.controls.admit(instance)
        try:
            round_ = self._open_row(instance, run_id, plan, policy, heartbeat)
        except PlanRefused:
            withdraw(self._db, plan or 0, instance)
            raise
        lease = self._leases.acquire(instance, JOB, run_id)
        t = self._db.t.round
        with self._db.write() as c:
            # Earlier rounds that never reported their end were terminated.
            unreported = and_(t.c.instance == instance, t.c.state == RoundState.RUNNING, t.c.id < round_)
            self._cut_off(c, unreported, FAILED, "cut off: its run ended without a report")
            c.execute(update(t).where(t.c.id == round_).values(waiting=None, waiting_since=None))
        with deciding(self._db, instance) as c:  # as every claim: vaults' markers name it (docs/adr/0046)
            c.execute(insert(self._db.t.claim).values(round=round_))
        for keeper in self._keepers:
            keeper.end_due(instance)
        reached("round.opened")
        cutoffs = dict(self.plans.due_instants(instance, policy).agreed)
        return OpenedRound(
            round=round_,
            lease=lease,
            may_delete=enabled,
            policy=for_owner(policy, row.owner),
            vaults=tuple(v.name for v in self._operators.registry.vaults(instance)),
            cutoffs=cutoffs,
        )

    def checked_range(self, order: RangeOrder, policy: Policy) -> RangeOrder:
        """Return the order as far as the rows allow it, or raise ``OrderRefused``."""
        return policies.checked_range(order, self._facts(order.round, order.plan, policy))

    def checked_adoption(self, order: AdoptOrder, policy: Policy) -> AdoptOrder:
        """Return the order as far as the rows allow it, or raise ``OrderRefused``."""
        return policies.checked_adoption(order, self._facts(order.round, 0, policy))

    def _facts(self, round_: int, plan: int, policy: Policy) -> RoundFacts | None:
        """Return what the rows say about a round, and about a plan of its instance; None: there is no such round."""
        t = self._db.t
        with self._db.read() as c:
            joined = t.round.join(t.instance, t.instance.c.id == t.round.c.instance)
            columns = (t.round.c.instance, t.round.c.run_id, t.round.c.state, t.round.c.plan, t.instance.c.owner)
            row = c.execute(select(*columns).select_from(joined).where(t.round.c.id == round_)).one_or_none()
            if row is None:
                return None
            is_behind = and_(t.vault.c.instance == row.instance, t.vault.c.announced_round < round_)
            unannounced = frozenset(c.execute(select(t.vault.c.name).where(is_behind)).scalars())
            is_own = and_(t.plan.c.id == plan, t.plan.c.instance == row.instance)
            stored = c.execute(select(t.plan.c.body, t.plan.c.approved_at).where(is_own)).one_or_none()
        instants = self.plans.due_instants(row.instance, policy)
        return RoundFacts(
            instance=row.instance,
            run=row.run_id,
            is_running=row.state == RoundState.RUNNING,
            policy=for_owner(policy, row.owner),
            cutoffs=instants.agreed,
            due=instants.in_force,
            unannounced=unannounced,
            plan=Plan.model_validate(stored.body) if stored is not None else None,
            is_approved=stored is not None and stored.approved_at is not None and row.plan == plan,
        )

    def release(self, opened: OpenedRound, why: str, wait: str = "") -> None:
        """Release the lease while the round waits, and store why; ``OrderRefused``."""
        t, row, lease = self._db.t.round, self._db.t.lease, opened.lease
        with self._db.write() as c:
            row_of_round = c.execute(select(t).where(t.c.id == opened.round)).one_or_none()
            policies.verified_row(lease.owner, lease.instance, row_of_round)
            has_lease = c.execute(select(row.c.owner).where(is_lease(row, lease))).first() is not None
            # This call may be a late repetition: without the lease, leave a round alone that continues already.
            condition = true() if has_lease else t.c.waiting.is_not(None)
            waits = {"waiting": why[:1000], "wait": wait if wait in WAITS else "", "waiting_since": self._db.now(c)}
            running = and_(t.c.id == opened.round, t.c.state == RoundState.RUNNING)
            c.execute(update(t).where(running, condition).values(**waits))
        self._free(lease)

    def abandon(self, run_id: str, why: str, plan: int = 0, of: str = "", state: str = FAILED) -> RoundReport | None:
        """End a round of ``of`` that had no lease yet, and the approval of its plan; it has deleted nothing.

        Return its report; None: there is no such round, or it has ended already.
        """
        withdraw(self._db, plan, of)
        t, instance = self._db.t.round, self._db.t.instance
        state = CANCELLED if state == CANCELLED else FAILED  # as its workflow ends
        try:
            if of:
                self._operators.controls.admit(of)
        except Halted:
            state = CANCELLED if state == CANCELLED else STOPPED
        report: RoundReport | None = None
        with self._db.write() as c:
            unbegun = and_(t.c.run_id == run_id, t.c.report.is_(None), t.c.waiting == FOR_LEASE)
            for report in self._cut_off(c, unbegun, state, f"ended before it had a lease: {why}"):
                now = self._db.now(c)
                # One that a stop or a window ended is due as soon as that is over.
                values = cancelled(now) if state == CANCELLED else {"retry_at": now}
                c.execute(update(instance).where(instance.c.id == report.instance).values(**values))
        return report

    def _open_row(
        self, instance: str, run_id: str, plan: int | None, policy: Policy, heartbeat: Callable[[], None]
    ) -> int:
        """Store the round as waiting for its lease, so that it is shown before it has one; return its number."""
        t, round_, interval_ms = self._db.t.instance, self._db.t.round, self._interval_seconds(instance) * 1000
        with self._db.write() as c:
            now = self._db.now(c)
            stored = c.execute(select(round_).where(round_.c.run_id == run_id)).one_or_none()
            if stored is not None:
                policies.verified_row(run_id, instance, stored)
            if stored is not None and stored.report is not None:
                raise RoundEnded(f"round {stored.id} has ended; start a new one: sexton round run {instance}")
            if stored is None:
                if plan is not None:
                    self.plans.approvals.begin_apply(c, plan, instance, policy, heartbeat)
                values = {"instance": instance, "run_id": run_id, "plan": plan, "started_at": now}
                row = insert(round_).values(**values, state=RoundState.RUNNING).returning(round_.c.id)
                number = int(c.execute(row).scalar_one())
                # This round is the slot; until it ends, another try is due at once: it may be terminated.
                is_instance = t.c.id == instance
                turn_at = turn(c.execute(select(t.c.turn_at).where(is_instance)).scalar_one(), interval_ms, now)
                c.execute(update(t).where(is_instance).values(turn_at=turn_at, retry_at=now))
                record_work(self._db, c, "round", instance, f"round {number}, run {run_id}")
            else:
                number = int(stored.id)
            # A repeated try does not change since when the round waits.
            not_waiting = and_(round_.c.id == number, or_(round_.c.waiting.is_(None), round_.c.waiting != FOR_LEASE))
            c.execute(update(round_).where(not_waiting).values(waiting=FOR_LEASE, wait="", waiting_since=now))
            return number

    def _cut_off(self, c: Connection, which: ColumnElement[bool], state: str, why: str) -> Sequence[RoundReport]:
        """End rounds that no workflow will close, with what they did by their counts; return their reports."""
        rows = c.execute(select(self._db.t.round).where(which).with_for_update()).all()
        nothing, reports = Policy(version="", retention_seconds={}, upload_grace_seconds=0), list[RoundReport]()
        for row in rows:
            lease = Lease(instance=row.instance, job=JOB, owner=row.run_id, epoch=0)
            opened = OpenedRound(round=row.id, lease=lease, may_delete=True, policy=nothing)
            reports.append(self._end(c, CloseOrder(opened=opened, plan=row.plan, outcome=state, error=why)))
        return reports

    def close(self, order: CloseOrder) -> RoundReport:
        """End the round, free the lease and store the report; repeating it returns the stored one; ``OrderRefused``."""
        t, lease = self._db.t.round, order.opened.lease
        with self._db.write() as c:
            # For update: two attempts to close must not both count it.
            stored = c.execute(select(t).where(t.c.id == order.opened.round).with_for_update()).one_or_none()
            row = policies.verified_row(lease.owner, lease.instance, stored)
            if row.report is not None:
                report = RoundReport.model_validate(row.report)
            else:
                plan = row.plan if row.plan is not None else self._plan_made_by_round(c, order)
                report = self._end(c, order.model_copy(update={"plan": plan}))
                # When it is tried again, and whether this was a success: a round with a vault at fault is none.
                t_instance, now = self._db.t.instance, report.ended_at or 0
                is_instance = t_instance.c.id == report.instance
                failures = c.execute(select(t_instance.c.failures).where(is_instance)).scalar_one()
                c.execute(update(t_instance).where(is_instance).values(**after_round(report, failures, now)))
        reached("round.closed")
        self._free(lease)
        return report

    def _plan_made_by_round(self, c: Connection, order: CloseOrder) -> int | None:
        """Return the plan that an order names, if a round may have made it; None: it is an operator's, or foreign."""
        t = self._db.t.plan
        is_own = and_(t.c.instance == order.opened.lease.instance, t.c.approved_at.is_(None), t.c.awaits.is_(None))
        return c.execute(select(t.c.id).where(t.c.id == order.plan, is_own)).scalar_one_or_none()

    def _free(self, lease: Lease) -> None:
        """Free the lease. A batch that is open still may have a request on its way: its worker did not answer."""
        batch = self._db.t.batch
        is_open = and_(batch.c.instance == lease.instance, batch.c.state == BatchState.OPEN)
        with self._db.write() as c:
            c.execute(update(batch).where(is_open).values(taken_over_at=self._db.now(c)))
        self._leases.free(lease)

    def forget_expired(self, instance: str, heartbeat: Callable[[], None]) -> None:
        """Delete rows whose time is over: history, rounds, plans, calls, protections. The next round tries again."""
        expired: list[Callable[[], object]] = [
            partial(self._old_rows.forget_history, instance, heartbeat),
            partial(self._old_rows.forget_rounds, instance, heartbeat),
            self._operators.calls.forget,
            *(keeper.delete_ended_rows for keeper in self._keepers),
        ]
        for forget in expired:
            try:
                forget()
            except AWAY as e:
                log.warning("expired rows were not deleted, the next round tries again: %s", first_line(e))

    def _end(self, c: Connection, order: CloseOrder) -> RoundReport:
        """Store the report, add it to the counters, and set the state of its plan."""
        t, now = self._db.t, self._db.now(c)
        report = build(self._db, c, order).model_copy(update={"ended_at": now})
        plan = order.plan
        if plan is not None and (order.opened.may_delete or report.tallies):
            # Nothing of it was claimed: it may be applied again. Lock the plan before the round, as ``open`` does.
            again = report.state != SUCCEEDED and not report.claimed
            values = {"state": PlanState.PLANNED, **NO_APPROVAL} if again else {"state": PlanState.APPLIED}
            c.execute(update(t.plan).where(t.plan.c.id == plan).values(**values))
            if not again:
                self.plans.agree_plan(c, plan)
        # The column is coarse: whether the round ran to its end. The report says how it ended.
        round_state = RoundState.SUCCEEDED if report.state in (SUCCEEDED, PARTIAL) else RoundState.FAILED
        ended = {"state": round_state, "ended_at": now, "report": report.model_dump(mode="json")}
        waits = {"waiting": None, "waiting_since": None}
        c.execute(update(t.round).where(t.round.c.id == report.round).values(**ended, **waits))
        add_to_counters(self._db, c, report.instance, counters_of(report))
        return report
