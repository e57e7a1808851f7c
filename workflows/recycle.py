"""One recycle round of one instance: lease → adopt → plan → waves of kinds, range by range → report.

workflows/tick.py starts it, which a schedule runs (sexton/runtime/temporal/schedules.py); or a command does.
"""

import asyncio
import datetime as dt

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.recycle import RecycleActivities
    from activities.tick import TickActivities
    from sexton.insight.wording import kept_counts, report_text
    from sexton.recycle.model import CANCELLED, FAILED, RoundReport
    from sexton.recycle.pipeline.model import AdoptOrder
    from sexton.recycle.planning.model import Plan
    from sexton.recycle.planning.policy import waves
    from sexton.recycle.rounds.ledger import Ledger
    from sexton.recycle.rounds.model import OpenedRound, OpenRoundOrder, RecycleRequest, ReleaseOrder, RoundProgress
    from workflows import ids
    from workflows.attempt import AttemptResult, Conclusion, Ending, conclude, failed_attempt
    from workflows.details import error_message, show
    from workflows.options import LEASE, MAX_LEASES_LOST, PAGED, SQL_READ, SQL_WRITE
    from workflows.ranges import delete
    from workflows.signals import RETRY_NOW, Controls, RetryAfter, stop_if_cancelled
    from workflows.waves import recycle_wave

CANCELLED_CONCLUSION = Conclusion(CANCELLED, "cancelled")


@workflow.defn(name=ids.RECYCLE)
class RecycleInstance(Controls):
    """Finish the marks that earlier rounds claimed, then delete marks up to the plan's cutoffs and counts, no others.

    While it is paused or backs off, the workflow runs without a lease.
    """

    @workflow.init
    def __init__(self, request: RecycleRequest) -> None:
        super().__init__()
        carried = request.carried
        self._request = request
        self._run_id = carried.run if carried else ""
        self._opened: OpenedRound | None = carried.opened if carried else None
        self._plan: Plan | None = None
        self._plan_id = carried.plan if carried else request.plan
        self._ledger = Ledger(carried)
        self._doing = "WAITING"
        self._error = ""

    @workflow.run
    async def run(self, request: RecycleRequest) -> RoundReport:
        """Run one round and return its report.

        Raises:
            ApplicationError: of type ``ids.ROUND_FAILED`` when a kind did not finish; the report is stored.
        """
        self._counting = asyncio.create_task(self.count_while("ADOPTING", "RECYCLING"))
        try:
            conclusion = await self.run_with_retries(self._attempt)
            report = await self._end(conclusion or CANCELLED_CONCLUSION)
        except (asyncio.CancelledError, FailureError) as e:  # a bug fails the workflow task, which waits for a fix
            failed = Conclusion(FAILED, error_message(e))
            await asyncio.shield(self._end(CANCELLED_CONCLUSION if is_cancelled_exception(e) else failed))
            raise
        if request.requested_by == ids.SCHEDULED:
            await self._trigger_schedule()
        if report.state == FAILED:
            message = f"round {report.round}: {report.error}"
            raise ApplicationError(message, report.round, type=ids.ROUND_FAILED, non_retryable=True)
        return report

    @workflow.query
    def progress(self) -> RoundProgress:
        """Return how far the round is, by the receipts of its ranges so far."""
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
            backoff_seconds=self._backoff_seconds,
        )

    async def on_wait(self, doing: str) -> None:
        """Release the lease while the round waits."""
        backoff = f" for {self._backoff_seconds:.0f} s: {self._error}" if doing == ids.BACKING_OFF else ""
        await self._release(f"{ids.WAITS[doing].text}{backoff}", doing)

    async def on_resume(self) -> None:
        """Release the lease, if the round still has it."""
        await self._release("resumed")  # the interrupted work continues under a new epoch

    async def _attempt(self) -> Conclusion | RetryAfter:
        """Work under one lease, then conclude the round or ask for another attempt."""
        result = await self._work_until_signalled()
        if result.ending is Ending.HISTORY_FULL:
            self._continue_as_new_if_unsignalled()
            return RETRY_NOW
        self._error = result.error
        if result.ending is Ending.LEASE_LOST:
            self._ledger.leases_lost += 1
            if self._ledger.leases_lost <= MAX_LEASES_LOST:
                # This run may still have the lease (another attempt took the batch): release it, so the epoch rises.
                await self._release("lost its lease")
                return RETRY_NOW
        if result.failed:
            self._ledger.tries += 1
        return conclude(result, self._ledger.tries)

    async def _work_until_signalled(self) -> AttemptResult:
        try:
            return await self.run_until_signalled(self._work())
        except ActivityError as e:
            # A stop or observe mode may refuse the new lease; then the round ends as stopped or not enabled.
            result = failed_attempt(e)
            if self._opened is None or result.ending not in (Ending.HALTED, Ending.NOT_ENABLED):
                raise
            return result

    def _continue_as_new_if_unsignalled(self) -> None:
        """Continue in a new workflow run with a short history: ``continue_as_new`` does not return.

        This returns only if a cancel or a pause waits, which this run respects first.
        """
        if not self._is_signalled:
            carried = self._ledger.carried(self._run_id, self._opened, self._plan_id)
            workflow.continue_as_new(self._request.model_copy(update={"carried": carried}))

    async def _work(self) -> AttemptResult:
        """Acquire the lease, finish earlier claims, then delete marks up to the plan's cutoffs and counts."""
        self._show("WAITING")
        opened = await workflow.execute_activity_method(
            RecycleActivities.open_round, self._open_order(), **LEASE, summary="acquire the lease"
        )
        self._opened, self._run_id, self._work_number = opened, opened.lease.owner, ("round", opened.round)
        self._ledger.leases += 1
        stop_if_cancelled()
        try:
            adopt_error = await self._adopt(opened) if opened.may_delete else ""
            plan = self._plan = await self._find_or_make_plan()
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
            return failed_attempt(e)
        if opened.may_delete:
            return await self._recycle(opened, plan, adopt_error)
        if self._ledger.unfinished:
            # The instance was enabled when the round began: work remains, so the round must not count as a success.
            return AttemptResult(Ending.NOT_ENABLED, "the instance was set to observe")
        return AttemptResult(Ending.FINISHED)

    async def _adopt(self, opened: OpenedRound) -> str:
        """Finish the marks that earlier rounds claimed; return the error, which does not stop the rest of the round."""
        self._show("ADOPTING")
        order = AdoptOrder(
            round=opened.round,
            lease=opened.lease,
            upload_grace_seconds=opened.policy.upload_grace_seconds,
            cutoffs=opened.cutoffs,
            excluded_vaults=opened.excluded_vaults,
        )
        began = workflow.now()
        try:
            summary = "finish what earlier rounds claimed"
            receipt = await delete(
                RecycleActivities.adopt_claimed, order, summary, opened.heavy_objects, self._ledger.note_adoption
            )
        except (ActivityError, asyncio.CancelledError) as e:  # not ``finally``: an evicted workflow has no time
            self._ledger.add_adoption_time(_milliseconds_since(began))
            if not isinstance(e, ActivityError) or is_cancelled_exception(e) or failed_attempt(e).stops_every_kind:
                raise
            return error_message(e)
        self._ledger.add_adoption_time(_milliseconds_since(began))
        self._ledger.add_adoption(receipt)
        stop_if_cancelled()
        return ""

    async def _find_or_make_plan(self) -> Plan:
        """Return the round's plan; make one if the request names none."""
        if self._plan is not None:
            return self._plan
        self._show("PLANNING")
        if self._plan_id is not None:
            plan = await workflow.execute_activity_method(
                RecycleActivities.find_plan, self._plan_id, **SQL_WRITE, summary=f"read plan {self._plan_id}"
            )
        else:
            plan = await workflow.execute_activity_method(
                RecycleActivities.make_plan, self._request, **PAGED, summary="plan the marks that are due"
            )
        self._plan_id = plan.id or None  # 0: it was not stored, because nothing is due
        if workflow.patched(ids.SHOWN):
            workflow.upsert_memo({"plan": self._plan_id})
        stop_if_cancelled()
        return plan

    async def _recycle(self, opened: OpenedRound, plan: Plan, adopt_error: str) -> AttemptResult:
        """Delete marks up to the plan's cutoffs and counts, wave by wave."""
        self._show("RECYCLING")
        self._ledger.begin(plan)
        by_name = {k.kind: k for k in plan.kinds}
        for wave in waves(by_name, plan.policy.after):
            # A kind that fails does not cancel another; kinds that must come after it wait.
            ready = [by_name[name] for name in wave if not self._ledger.waits_for(plan, name)]
            stopping_result = await recycle_wave(opened, plan, ready, self._ledger, lambda: self._show("RECYCLING"))
            if stopping_result is not None:
                return stopping_result
            if workflow.info().is_continue_as_new_suggested():
                return AttemptResult(Ending.HISTORY_FULL)
        errors = ([f"adopt: {adopt_error}"] if adopt_error else []) + self._ledger.errors
        return AttemptResult(Ending.FAILED, "; ".join(errors)) if errors else AttemptResult(Ending.FINISHED)

    async def _release(self, why: str, wait: str = "") -> None:
        """Release the lease; the round continues later."""
        if self._opened is not None:
            order = ReleaseOrder(opened=self._opened, why=why, wait=wait)
            await workflow.execute_activity_method(RecycleActivities.release_lease, order, **SQL_WRITE, summary=why)

    async def _end(self, conclusion: Conclusion) -> RoundReport:
        """End the round and return its report, which is stored if the round ever had a lease."""
        if self._opened is None:
            return await self._abandon(conclusion)
        return await self._close(self._opened, conclusion)

    async def _abandon(self, conclusion: Conclusion) -> RoundReport:
        """End a round that never had a lease; return its report, which is not stored if the round has no row."""
        state, error = conclusion
        report = await workflow.execute_activity_method(
            RecycleActivities.abandon_round,
            self._open_order().model_copy(update={"why": error, "state": state}),
            **SQL_WRITE,
            summary="abandon the round: it never had a lease",
        )
        report = report or RoundReport(round=0, instance=self._request.instance, state=state, error=error)
        self._show("ENDED", report)
        return report

    async def _close(self, opened: OpenedRound, conclusion: Conclusion) -> RoundReport:
        """Store the report of the round, and return it."""
        state, error = conclusion
        self._show("CLOSING")
        order = self._ledger.close_order(opened, self._plan_id, self._plan, state, error)
        report = await workflow.execute_activity_method(
            RecycleActivities.close_round, order, **PAGED, summary="store the report"
        )
        self._show("ENDED", report)
        return report

    async def _trigger_schedule(self) -> None:
        """Trigger the schedule, because a slot is free. It also ticks by itself, so an error here does no harm."""
        try:
            await workflow.execute_activity_method(TickActivities.nudge, **SQL_READ, summary="trigger the schedule")
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
            workflow.logger.info("the schedule was not triggered; it ticks by itself: %s", error_message(e))

    def _open_order(self) -> OpenRoundOrder:
        return OpenRoundOrder(instance=self._request.instance, plan=self._request.plan, run=self._run_id)

    def _show(self, doing: str, report: RoundReport | None = None) -> None:
        """Show in the Temporal UI how far the round is; ``report``: at its end."""
        self._doing, number, kept = doing, self._opened.round if self._opened else 0, self._ledger.kept
        lines = [*self._progress]
        if report is not None:
            number, kept = report.round, report.kept
            lines = [report_text(report), *(f"{kind.kind}: {kind.deleted:,} deleted" for kind in report.kinds)]
        lines += [
            f"kept: {kept_counts(kept)}",
            *self._ledger.lines,
            *([f"error: {self._error}"] if self._error else []),
        ]
        show(report.state if report else doing, f"round {number}" if number else "", lines)


def _milliseconds_since(began: dt.datetime) -> int:
    """Return how long ago an instant of this workflow was."""
    return round((workflow.now() - began).total_seconds() * 1000)
