"""One recycle round of one instance: lease → adopt → plan → waves of kinds, range by range → report."""

import asyncio
import datetime as dt
from dataclasses import dataclass

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.recycle import RecycleActivities
    from activities.spark import SparkActivities
    from activities.tick import TickActivities
    from sexton.recycle.model import (
        CANCELLED,
        FAILED,
        STOPPED,
        SUCCEEDED,
        AdoptOrder,
        KindPlan,
        OpenedRound,
        OpenRoundOrder,
        Plan,
        RangeOrder,
        RangeReceipt,
        RecycleRequest,
        ReleaseOrder,
        RoundProgress,
        RoundReport,
    )
    from sexton.recycle.planning.policy import waves
    from sexton.recycle.rounds.ledger import Ledger
    from workflows import ids
    from workflows.controls import Controls, InterruptedBySignal, stop_if_cancelled
    from workflows.options import (
        BATCH_DELETE,
        CATALOG_READ,
        CATALOG_WRITE,
        LEASE,
        MAX_LEASES_LOST,
        MAX_TRIES,
        MOST_SPARK_ATTEMPTS,
        RANGES_AT_ONCE,
        SPARK_WAIT,
        backoff,
    )
    from workflows.spark import nobody_took, on_spark
    from workflows.words import words

NO_SPARK = "no Spark worker polls: deleted by a control worker"
SPARK_BROKEN = "{why}: a control worker deleted the rest"
SPARK_BUSY = "no Spark worker took it, or the rest of one that died, within {seconds:.0f} s: a control worker did"


@dataclass(frozen=True)
class AttemptResult:
    """How one go under one lease ended: as planned, unless a field says otherwise."""

    error: str = ""
    fatal: bool = False
    halted: bool = False
    lost: bool = False
    full: bool = False

    @property
    def ends_all(self) -> bool:
        """Whether no other kind can go on either."""
        return self.fatal or self.halted or self.lost


@workflow.defn(name=ids.RECYCLE)
class RecycleInstance(Controls):
    """Finish what earlier rounds claimed, then delete what a plan says and nothing more.

    Paused or backing off it is a running workflow without a lease.
    """

    @workflow.init
    def __init__(self, request: RecycleRequest) -> None:
        super().__init__()
        carried = request.carried
        self._request = request
        self._run = carried.run if carried else ""
        self._opened: OpenedRound | None = carried.opened if carried else None
        self._plan: Plan | None = None
        self._plan_id = carried.plan if carried else request.plan
        self._ledger = Ledger(carried)
        self._doing = "WAITING"
        self._error = ""
        self._backoff = 0.0

    @workflow.run
    async def run(self, request: RecycleRequest) -> RoundReport:
        """Run one round and return its report.

        Raises:
            ApplicationError: of type ``ids.ROUND_FAILED`` when a kind did not finish; the report is stored.
        """
        try:
            while (report := await self._go()) is None:
                pass
        except (asyncio.CancelledError, FailureError) as e:  # a bug fails the workflow task, and waits for its mending
            cancelled = is_cancelled_exception(e)
            close = self._close(CANCELLED if cancelled else FAILED, "cancelled" if cancelled else words(e))
            await asyncio.shield(close)
            raise
        if request.requested_by == ids.SCHEDULED:
            await self._nudge()
        if report.state == FAILED:
            told = f"round {report.round}: {report.error}"
            raise ApplicationError(told, report.round, type=ids.ROUND_FAILED, non_retryable=True)
        return report

    @workflow.query
    def progress(self) -> RoundProgress:
        """Tell how far the round is, from what its ranges reported so far."""
        return RoundProgress(
            instance=self._request.instance,
            doing=self._doing,
            round=self._opened.round if self._opened else None,
            plan=self._plan_id,
            tries=self._ledger.tries,
            leases=self._ledger.leases,
            kinds=tuple(self._ledger.kinds.values()),
            kept=self._ledger.kept,
            error=self._error,
            backoff_seconds=self._backoff,
        )

    async def _go(self) -> RoundReport | None:
        """Work under one lease; return the report, or None where another go is needed."""
        if self._pause:
            self._say("PAUSED")
            await self._release("paused")
            await self.while_paused()
        try:
            if self._cancel:
                raise InterruptedBySignal
            end = await self.unless_told(self._work())
        except InterruptedBySignal:
            if self._cancel:
                return await self._close(CANCELLED, "cancelled")
            if not self._pause:  # taken back already; what was cut short goes on under a new epoch
                await self._release("resumed")
            return None
        except ActivityError as e:
            # A round that was paused or backing off is refused its lease: it ends as it would have under it.
            if self._opened is None or _type(e) not in (ids.HALTED, ids.NOT_ENABLED):
                raise
            end = AttemptResult(error=words(e), halted=_type(e) == ids.HALTED, fatal=True)
        if end.full:
            if not (self._cancel or self._pause):
                carried = self._ledger.carried(self._run, self._opened, self._plan_id)
                workflow.continue_as_new(self._request.model_copy(update={"carried": carried}))
            return None
        self._error = end.error
        if end.lost:
            self._ledger.lost += 1
            if self._ledger.lost <= MAX_LEASES_LOST:
                # Where it is ours after all (another attempt took the batch) the next one is a new epoch.
                await self._release("lost its lease")
                return None
        if end.halted:
            return await self._close(STOPPED, end.error)
        if not end.error:
            return await self._close(SUCCEEDED, "")
        self._ledger.tries += 1
        if end.fatal or end.lost or self._ledger.tries >= MAX_TRIES:
            return await self._close(FAILED, end.error)
        self._backoff, kicks = backoff(self._ledger.tries), self._kicks
        self._say("BACKING_OFF")
        await self._release(f"backing off for {self._backoff:.0f} s: {end.error}")
        await self.back_off(self._backoff, kicks)
        self._backoff = 0.0
        return None

    async def _work(self) -> AttemptResult:
        """Take the lease, then do everything that is left to do."""
        self._say("WAITING")
        order = self._order()
        opened = await workflow.execute_activity_method(
            RecycleActivities.open_round, order, **LEASE, summary="take the lease"
        )
        self._opened, self._run = opened, opened.lease.owner
        self._ledger.leases += 1
        stop_if_cancelled()
        adopting = ""
        try:
            if opened.may_delete:
                adopting = await self._adopt(opened)
            plan = self._plan = await self._find_plan()
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
            return _end(e)
        if not opened.may_delete:
            # It was enabled when this round began: what is left is not done, and nobody may call it a success.
            observes = "the instance was set to observe"
            return AttemptResult(error=observes, fatal=True) if self._ledger.unfinished else AttemptResult()
        self._say("RECYCLING")
        self._ledger.begin(plan)
        errors = [f"adopt: {adopting}"] if adopting else []
        by_name = {k.kind: k for k in plan.kinds}
        for wave in waves(by_name, plan.policy.after):
            # A failing kind does not cancel another; what must come after it waits.
            free = [k for k in wave if not self._ledger.waits_for(plan, k)]
            turns = asyncio.Semaphore(RANGES_AT_ONCE)
            runs = (self._recycle(opened, plan, by_name[k], turns) for k in free)
            ends = dict(zip(free, await asyncio.gather(*runs, return_exceptions=True), strict=True))
            stop_if_cancelled()
            for kind, error in ends.items():
                if isinstance(error, ActivityError) and not is_cancelled_exception(error):
                    self._ledger.error(kind, words(error))
                elif error is not None:
                    raise error
            for error in ends.values():
                if isinstance(error, ActivityError) and (end := _end(error)).ends_all:
                    return end
            if workflow.info().is_continue_as_new_suggested():
                return AttemptResult(full=True)
        return AttemptResult(error="; ".join(errors + self._ledger.errors))

    async def _adopt(self, opened: OpenedRound) -> str:
        """Finish what earlier rounds claimed; return what went wrong: it does not keep what is due from going."""
        self._say("ADOPTING")
        order = AdoptOrder(
            round=opened.round,
            lease=opened.lease,
            upload_grace_seconds=opened.policy.upload_grace_seconds,
            cutoffs=opened.cutoffs,
            excluded_vaults=opened.excluded_vaults,
        )
        try:
            receipt = await workflow.execute_activity_method(
                RecycleActivities.adopt_claimed, order, **BATCH_DELETE, summary="finish what earlier rounds claimed"
            )
        except ActivityError as e:
            if is_cancelled_exception(e) or _end(e).ends_all:
                raise
            return words(e)
        self._ledger.adopted(receipt)
        stop_if_cancelled()
        return ""

    async def _find_plan(self) -> Plan:
        if self._plan is not None:
            return self._plan
        self._say("PLANNING")
        if self._plan_id is not None:
            plan = await workflow.execute_activity_method(
                RecycleActivities.find_plan, self._plan_id, **CATALOG_WRITE, summary=f"plan {self._plan_id}"
            )
        else:
            plan = await workflow.execute_activity_method(
                RecycleActivities.make_plan, self._request, **CATALOG_WRITE, summary="what is due"
            )
        self._plan_id = plan.id
        stop_if_cancelled()
        return plan

    async def _recycle(self, opened: OpenedRound, plan: Plan, kind: KindPlan, turns: asyncio.Semaphore) -> None:
        """Go through one kind, range by range, until it is finished or the history is full."""
        name, ledger = kind.kind, self._ledger
        ledger.error(name, "")
        while not ledger.kinds[name].finished and not workflow.info().is_continue_as_new_suggested():
            async with turns:
                order, began = ledger.next_range(opened, plan, kind), workflow.now()
                try:
                    receipt = await self._range(opened, kind, order)
                except (ActivityError, asyncio.CancelledError):
                    ledger.cut_short(name, _since(began))
                    raise
            ledger.done(name, receipt, _since(began))
            self._say("RECYCLING")
            stop_if_cancelled()

    async def _range(self, opened: OpenedRound, kind: KindPlan, order: RangeOrder) -> RangeReceipt:
        """Do one range on Spark, where the kind has many objects and a Spark worker takes it; else here."""
        name, summary = kind.kind, f"{kind.kind}, range {order.number}"
        heavy = opened.heavy_objects is not None and kind.objects > opened.heavy_objects
        if heavy and self._ledger.kinds[name].tries_spark:
            queue = await workflow.execute_activity_method(
                SparkActivities.find_spark, **CATALOG_READ, summary="who polls for Spark"
            )
            try:
                if queue:
                    return await workflow.execute_activity_method(
                        RecycleActivities.recycle_range,
                        order,
                        **(BATCH_DELETE | on_spark(queue)),
                        summary=f"{summary}, on Spark",
                    )
                self._ledger.without_spark(name, NO_SPARK, again=True)
            except ActivityError as e:
                if nobody_took(e):
                    why = SPARK_BUSY.format(seconds=SPARK_WAIT.total_seconds())
                elif _type(e) == ids.SPARK_FAILED:
                    why = SPARK_BROKEN.format(why=words(e))
                else:
                    raise
                self._ledger.without_spark(name, why, again=False)
                # Its workers may have begun with it; what they do late is refused, as an older attempt's.
                order = order.model_copy(update={"attempts": MOST_SPARK_ATTEMPTS})
        return await workflow.execute_activity_method(
            RecycleActivities.recycle_range, order, **BATCH_DELETE, summary=summary
        )

    async def _release(self, why: str) -> None:
        """Give the lease back; the round goes on later."""
        if self._opened is not None:
            order = ReleaseOrder(opened=self._opened, why=why)
            await workflow.execute_activity_method(RecycleActivities.release_lease, order, **CATALOG_WRITE, summary=why)

    async def _close(self, state: str, error: str) -> RoundReport:
        if self._opened is None:
            await workflow.execute_activity_method(
                RecycleActivities.abandon_round,
                self._order().model_copy(update={"why": error}),
                **CATALOG_WRITE,
                summary="it never had a lease",
            )
            return RoundReport(round=0, instance=self._request.instance, state=state, error=error)
        self._say("CLOSING")
        order = self._ledger.close_order(self._opened, self._plan_id, self._plan, state, error)
        report = await workflow.execute_activity_method(
            RecycleActivities.close_round, order, **CATALOG_WRITE, summary=f"store the report: {state}"
        )
        self._say("ENDED", state)
        return report

    async def _nudge(self) -> None:
        """A slot is free: let the schedule tick now. It ticks anyway before long, so a failure is none of the round."""
        try:
            await workflow.execute_activity_method(TickActivities.nudge, **CATALOG_READ, summary="a slot is free")
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
            workflow.logger.info("the schedule could not be told that a slot is free: %s", words(e))

    def _order(self) -> OpenRoundOrder:
        request = self._request
        return OpenRoundOrder(instance=request.instance, plan=request.plan, run=self._run, by=request.requested_by)

    def _say(self, doing: str, state: str = "") -> None:
        """Show in the Temporal UI what is going on."""
        changed, self._doing = self._doing != doing, doing
        lines = [f"**{state or doing}**" + (f" round {self._opened.round}" if self._opened else "")]
        workflow.set_current_details(
            "\n".join([*lines, *self._ledger.lines, *([f"error: {self._error}"] if self._error else [])])
        )
        if changed and self._opened is not None and self._opened.attributes:
            workflow.upsert_search_attributes(
                [
                    ids.ATTRIBUTE_INSTANCE.value_set(self._request.instance),
                    ids.ATTRIBUTE_STATE.value_set(state or doing),
                ]
            )


def _since(began: dt.datetime) -> int:
    """Return the milliseconds that have passed."""
    return round((workflow.now() - began).total_seconds() * 1000)


def _end(error: ActivityError) -> AttemptResult:
    kind = _type(error)
    return AttemptResult(
        error=words(error), lost=kind == ids.LEASE_LOST, halted=kind == ids.HALTED, fatal=kind == ids.NOT_ENABLED
    )


def _type(error: ActivityError) -> str:
    return error.cause.type or "" if isinstance(error.cause, ApplicationError) else ""
