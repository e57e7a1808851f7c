"""Rounds, as rows: opened under a lease, counted as the instance's turn, closed with a report."""

import logging
from collections.abc import Callable, Sequence
from functools import partial

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, insert, or_, select, true, tuple_, update

from sexton.database.counters import add_to_counters
from sexton.database.engine import AWAY, Database, first_line
from sexton.kernel.crash_points import reached
from sexton.marks.lease import Lease
from sexton.marks.sql.leases import LeaseStore
from sexton.operators.controls.port import NotEnabled
from sexton.operators.stores import OperatorStores
from sexton.recycle.errors import RoundEnded
from sexton.recycle.model import CANCELLED, FAILED, SUCCEEDED, RoundReport
from sexton.recycle.planning import policy as rules
from sexton.recycle.planning.model import Plan, Policy
from sexton.recycle.planning.sql.plans import PlanStore
from sexton.recycle.rounds.counters import counters_of
from sexton.recycle.rounds.model import CloseOrder, OpenedRound
from sexton.recycle.rounds.port import EndingProtections
from sexton.recycle.rounds.sql.reports import Reports, build

JOB = "recycle"
FOR_LEASE = "waiting for its lease: another round's end, or a free slot"
HISTORY_DAYS = 30
HISTORY_ROWS_A_ROUND = 100_000
log = logging.getLogger(__name__)


class RoundStore:
    """Opens and closes rounds. Implements ``rounds.port.RoundStorePort``."""

    def __init__(
        self,
        db: Database,
        leases: LeaseStore,
        operators: OperatorStores,
        interval_seconds: int,
        live_objects: Callable[[str], int | None] = lambda _: None,
        protections: EndingProtections | None = None,
    ) -> None:
        """``interval_seconds``: from one slot of an instance to its next; ``live_objects``: counted by its owner.

        ``protections``: those that are overdue end when a round opens; None: none are registered.
        """
        self.plans = PlanStore(db)
        self.reports = Reports(db)
        self._live_objects = live_objects
        self._protections = protections
        self._db = db
        self._leases = leases
        self._operators = operators
        self._interval_ms = interval_seconds * 1000

    def plan(self, instance: str, policy: Policy, by: str) -> Plan:
        """Fix cutoffs and counts for a round and store them."""
        return self.plans.plan_for_round(instance, policy, by, partial(self._live_objects, instance))

    def find_plan(self, plan: int) -> Plan:
        """Return a stored plan, or raise ``PlanRefused``."""
        return self.plans.find_plan(plan)

    def open(self, instance: str, run_id: str, plan: int | None, policy: Policy, by: str = "") -> OpenedRound:
        """Acquire the lease and open the round of this run; repeating it returns the same round.

        Raises:
            Halted: a stop, a list or a window keeps the instance.
            LeaseBusy: another round works on the instance, or was killed less than a lease ago.
            NoFreeSlot: as many rounds run as may run at once.
            NotEnabled: a plan is to be applied to an instance that only observes.
            PlanRefused: the plan does not exist, was applied, or is another instance's.
            RoundEnded: this run's round has ended already (it was reset in Temporal).
        """
        registry = self._operators.registry
        known = registry.instance(instance)
        enabled = known.mode == "enabled"
        if plan is not None and not enabled:
            raise NotEnabled(f"{instance} only observes; run: sexton enable {instance}")
        self._operators.controls.admit(instance)
        made = self._open_row(instance, run_id, plan, policy, by)
        lease = self._leases.acquire(instance, JOB, run_id)
        self._begin(instance, made)
        if self._protections is not None:
            self._protections.end_due(instance)
        names = tuple(v.name for v in registry.vaults(instance))
        reached("round.opened")
        its = rules.for_owner(policy, known.owner)
        cutoffs = dict(self.plans.retentions.cutoffs(instance, policy))
        return OpenedRound(round=made, lease=lease, may_delete=enabled, policy=its, vaults=names, cutoffs=cutoffs)

    def release(self, opened: OpenedRound, why: str) -> None:
        """Give the lease back while the round waits (paused, backing off), and say why."""
        t, row, lease = self._db.t.round, self._db.t.lease, opened.lease
        mine = and_(row.c.instance == lease.instance, row.c.job == lease.job, row.c.state == "BUSY")
        with self._db.write() as c:
            held = select(row.c.owner).where(mine, row.c.owner == lease.owner, row.c.epoch == lease.epoch)
            # Not a round that goes on already: this may be a late repetition.
            its = t.c.waiting.is_not(None) if c.execute(held).first() is None else true()
            waits = {"waiting": why[:1000], "waiting_since": self._db.now(c)}
            c.execute(update(t).where(t.c.id == opened.round, t.c.state == "RUNNING", its).values(**waits))
        self._leases.free(lease)

    def abandon(self, run_id: str, why: str = "cancelled") -> None:
        """End a round that was called off, or refused, before it had a lease; nothing happened in it."""
        t, instance = self._db.t.round, self._db.t.instance
        with self._db.write() as c:
            unbegun = and_(t.c.run_id == run_id, t.c.report.is_(None), t.c.waiting == FOR_LEASE)
            for name in self._cut_off(c, unbegun, CANCELLED, f"ended before it had a lease: {why}"):
                c.execute(update(instance).where(instance.c.id == name).values(retry_at=None))

    def _open_row(self, instance: str, run_id: str, plan: int | None, policy: Policy, by: str) -> int:
        """Store the round, waiting for its lease: before it has one, so that whoever looks sees it wait."""
        round_ = self._db.t.round
        with self._db.write() as c:
            now = self._db.now(c)
            found = c.execute(select(round_.c.id, round_.c.report).where(round_.c.run_id == run_id)).one_or_none()
            if found is not None and found.report is not None:
                raise RoundEnded(f"round {found.id} has ended; start a new one: sexton round run {instance}")
            if found is None:
                if plan is not None:
                    self.plans.approvals.begin_apply(c, plan, instance, policy, by)
                values = {"instance": instance, "run_id": run_id, "plan": plan, "started_at": now}
                row = insert(round_).values(**values, state="RUNNING").returning(round_.c.id)
                made = int(c.execute(row).scalar_one())
                self._take_turn(c, instance, now)
            else:
                made = int(found.id)
            # It may be the tenth try: since when it waits stays.
            anew = and_(round_.c.id == made, or_(round_.c.waiting.is_(None), round_.c.waiting != FOR_LEASE))
            c.execute(update(round_).where(anew).values(waiting=FOR_LEASE, waiting_since=now))
            return made

    def _begin(self, instance: str, round_: int) -> None:
        """Say that the round has its lease. Whoever had it before us is gone without a word (terminated, say)."""
        t = self._db.t.round
        with self._db.write() as c:
            silent = and_(t.c.instance == instance, t.c.state == "RUNNING", t.c.id < round_)
            self._cut_off(c, silent, FAILED, "cut off: its run ended without a word")
            c.execute(update(t).where(t.c.id == round_).values(waiting=None, waiting_since=None))

    def _cut_off(self, c: Connection, which: ColumnElement[bool], state: str, why: str) -> Sequence[str]:
        """End rounds that nobody will close, with what their tallies say they did; return their instances."""
        rows = c.execute(select(self._db.t.round).where(which).with_for_update()).all()
        nothing = Policy(version="", retention_seconds={}, upload_grace_seconds=0)
        for row in rows:
            lease = Lease(instance=row.instance, job=JOB, owner=row.run_id, epoch=0)
            opened = OpenedRound(round=row.id, lease=lease, may_delete=True, policy=nothing)
            self._end(c, CloseOrder(opened=opened, plan=row.plan, outcome=state, error=why))
        return [row.instance for row in rows]

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
            # For update: two attempts to close must not both count it.
            stored = c.execute(select(t.round.c.report).where(t.round.c.id == round_).with_for_update()).scalar_one()
            if stored is not None:
                report = RoundReport.model_validate(stored)
            else:
                report = self._end(c, order)
                self._end_turn(c, report)
                self._forget_history(c, report.instance)
        reached("round.closed")
        self._leases.free(order.opened.lease)
        expired: list[Callable[[], object]] = [self._operators.calls.forget]
        if self._protections is not None:
            expired.append(self._protections.delete_ended_rows)
        for forget in expired:
            try:
                forget()
            except AWAY as e:  # the round is closed; the next one tries again
                log.warning("what is over was not forgotten: %s", first_line(e))
        return report

    def _end(self, c: Connection, order: CloseOrder) -> RoundReport:
        """Store the report, count it, and say what became of its plan."""
        t, now = self._db.t, self._db.now(c)
        report = build(self._db, c, order).model_copy(update={"ended_at": now})
        plan = order.plan
        if plan is not None and (order.opened.may_delete or report.tallies):
            # Nothing of it went: it may be applied again. Plan before round, as ``open`` does.
            again = report.state != SUCCEEDED and not report.claimed
            became = update(t.plan).where(t.plan.c.id == plan).values(state="PLANNED" if again else "APPLIED")
            c.execute(became)
            if not again:
                self.plans.retentions.agree_plan(c, plan)
        # The column is coarse: whether it ran to its end. The report says how it ended.
        state = "SUCCEEDED" if report.state == SUCCEEDED else "FAILED"
        ended = {"state": state, "ended_at": now, "report": report.model_dump(mode="json")}
        waits = {"waiting": None, "waiting_since": None}
        c.execute(update(t.round).where(t.round.c.id == report.round).values(**ended, **waits))
        add_to_counters(self._db, c, report.instance, counters_of(report))
        return report

    def _end_turn(self, c: Connection, report: RoundReport) -> None:
        """Say when the instance is tried again, and whether this was a success: a vault at fault is none."""
        t, now = self._db.t.instance, report.ended_at or 0
        failures = c.execute(select(t.c.failures).where(t.c.id == report.instance)).scalar_one()
        values: dict[str, int | None] = {"retry_at": rules.retry_at(report, failures, now)}
        if report.state == FAILED or (report.state == SUCCEEDED and report.faults):
            values["failures"] = failures + 1
        elif report.state == SUCCEEDED and not report.observed:  # an observing round asks no vault and proves nothing
            values |= {"failures": 0, "last_success_at": now}
        c.execute(update(t).where(t.c.id == report.instance).values(**values))

    def _forget_history(self, c: Connection, instance: str) -> None:
        history = self._db.t.mark_history
        edge = self._db.now(c) - HISTORY_DAYS * 86_400_000
        # While the parent is still marked its undrop must see that a child is gone.
        mark = self._db.t.mark
        # While a child is there a hold on what is above must reach it; chains free themselves from below.
        below = history.alias()
        has_child = or_(
            *(
                exists().where(
                    child.c.instance == history.c.instance,
                    child.c.parent_kind == history.c.kind,
                    child.c.parent_id == history.c.id,
                )
                for child in (mark, below)
            )
        )
        parent_marked = exists().where(
            mark.c.instance == history.c.instance,
            mark.c.kind == history.c.parent_kind,
            mark.c.id == history.c.parent_id,
        )
        old = (
            select(history.c.kind, history.c.id)
            .where(history.c.instance == instance, history.c.gone_at < edge, ~parent_marked, ~has_child)
            .limit(HISTORY_ROWS_A_ROUND)
        )
        named = tuple_(history.c.kind, history.c.id).in_(old)
        c.execute(delete(history).where(history.c.instance == instance, named))
