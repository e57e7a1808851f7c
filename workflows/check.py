"""Check one instance: list its vaults, read its records, check lost objects again, conclude.

A check deletes nothing and needs no lease: the workflow id admits one check at a time, and findings count only after
the check has concluded.
"""

import asyncio
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.check import CheckActivities
    from activities.tick import SparkActivities
    from sexton.check.model import (
        CheckOrder,
        CheckProgress,
        CheckReport,
        CheckRequest,
        ConcludeOrder,
        Evidence,
        OpenedCheck,
        SecondCheckOrder,
    )
    from sexton.insight.wording import check_text
    from workflows import ids, options
    from workflows.details import error_message, error_type, is_permanent, show
    from workflows.options import COMPARE, MAX_CHECK_TRIES, SQL_READ, SQL_WRITE, backoff
    from workflows.signals import Controls, RetryAfter, stop_if_cancelled
    from workflows.spark import on_spark, was_not_taken

ON_SPARK = "compared on Spark"
NO_SPARK = "no Spark worker is free: compared by a control worker, which takes longer"
SPARK_BUSY = "no Spark worker took it within {seconds:.0f} s: compared by a control worker, which takes longer"


@workflow.defn(name=ids.CHECK)
class CheckInstance(Controls):
    """Compare an instance's records with its objects, in both directions."""

    @workflow.init
    def __init__(self, request: CheckRequest) -> None:
        super().__init__()
        self._request = request
        self._doing, self._error, self._tries = "BEGINNING", "", 0
        self._opened: OpenedCheck | None = None
        self._compared: Evidence | None = None

    @workflow.query
    def progress(self) -> CheckProgress:
        """Return what the check is doing."""
        return CheckProgress(
            instance=self._request.instance,
            check=self._opened.order.run.id if self._opened else None,
            doing=self._doing,
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff_seconds,
        )

    @workflow.run
    async def run(self, request: CheckRequest) -> CheckReport:
        """Check once and return the report; an incomplete check reports the inputs that it lacks."""
        self._show("BEGINNING")
        opened = self._opened = await workflow.execute_activity_method(
            CheckActivities.begin_check, request, **SQL_WRITE, summary=f"begin a check of {request.instance}"
        )
        self._work_number = ("check", opened.order.run.id)
        self._counting = asyncio.create_task(self.count_while("COMPARING"))
        try:
            evidence = await self.run_with_retries(lambda: self._attempt(opened))
        except (asyncio.CancelledError, FailureError) as e:
            error = "cancelled" if is_cancelled_exception(e) else error_message(e)
            await asyncio.shield(self._conclude(opened, self._incomplete(opened, error)))
            raise
        return await self._conclude(opened, evidence or self._incomplete(opened, "cancelled"))

    async def on_wait(self, doing: str) -> None:
        """Forget what was compared before a pause: the check lists everything again after it."""
        if doing == ids.PAUSED:
            self._compared = None

    async def _attempt(self, opened: OpenedCheck) -> Evidence | RetryAfter:
        """Compare and check again once; ask for another attempt after a transient error."""
        try:
            return await self.run_until_signalled(self._collect_evidence(opened))
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
            self._error = error_message(e)
            self._tries += 1
            if is_permanent(e) or self._tries >= MAX_CHECK_TRIES:
                raise
            return RetryAfter(backoff(self._tries))

    async def _collect_evidence(self, opened: OpenedCheck) -> Evidence:
        """Compare, unless an earlier attempt did; then check again what the comparison found."""
        if self._compared is None:
            self._show("COMPARING")
            self._compared = await self._compare(opened)
            stop_if_cancelled()
        self._show("CHECKING_LOST_OBJECTS_AGAIN")
        return await workflow.execute_activity_method(
            CheckActivities.look_again,
            SecondCheckOrder(order=opened.order, evidence=self._compared),
            **_by_control_worker(opened),
            summary="check lost objects again, uploads and records",
        )

    async def _compare(self, opened: OpenedCheck) -> Evidence:
        """Compare on a control worker, or on Spark where the listing or an estimate shows many objects."""
        if not opened.heavy:
            try:
                return await self._compare_on_control_worker(opened, opened.order)
            except ActivityError as e:
                if error_type(e) != ids.TOO_MANY_OBJECTS:
                    raise
        return await self._compare_many(opened, opened.order.model_copy(update={"most_objects": None}))

    async def _compare_many(self, opened: OpenedCheck, order: CheckOrder) -> Evidence:
        """Compare on Spark where a Spark worker is free, otherwise on a control worker; the evidence says which."""
        queue = await workflow.execute_activity_method(
            SparkActivities.find_spark, **SQL_READ, summary="find Spark workers"
        )
        note = NO_SPARK
        if queue:
            try:
                evidence = await workflow.execute_activity_method(
                    CheckActivities.compare,
                    order,
                    **(COMPARE | on_spark(queue)),
                    summary="compare objects and records, on Spark",
                )
                return _noted(evidence, ON_SPARK)
            except ActivityError as e:
                if not was_not_taken(e):
                    raise
                note = SPARK_BUSY.format(seconds=options.SPARK_WAIT.total_seconds())
        return _noted(await self._compare_on_control_worker(opened, order), note)

    async def _compare_on_control_worker(self, opened: OpenedCheck, order: CheckOrder) -> Evidence:
        return await workflow.execute_activity_method(
            CheckActivities.compare, order, **_by_control_worker(opened), summary="compare objects and records"
        )

    def _incomplete(self, opened: OpenedCheck, error: str) -> Evidence:
        """Return the evidence so far of a check that ends early, with the reason."""
        evidence = self._compared or Evidence(cutoff=opened.order.run.cutoff, listings=())
        return evidence.model_copy(update={"errors": (*evidence.errors, error)})

    async def _conclude(self, opened: OpenedCheck, evidence: Evidence) -> CheckReport:
        order = ConcludeOrder(instance=opened.order.instance, run=opened.order.run, evidence=evidence)
        report = await workflow.execute_activity_method(
            CheckActivities.conclude_check, order, **SQL_WRITE, summary="conclude the check"
        )
        self._show(report.run.state, report)
        return report

    def _show(self, doing: str, report: CheckReport | None = None) -> None:
        """Show the check's progress in the Temporal UI; ``report``: at its end."""
        self._doing = doing
        check = f"check {self._opened.order.run.id}" if self._opened else ""
        lines = [*self._progress, *([f"error: {self._error}"] if self._error else [])]
        if report is not None:
            findings = ", ".join(f"{kind} {count}" for kind, count in sorted(report.confirmed.items()))
            lines = [check_text(report.run), f"confirmed: {findings or 'no difference'}", *report.run.missing_inputs]
        show(doing, check, lines)


def _by_control_worker(opened: OpenedCheck) -> dict[str, Any]:
    """Return the options of a comparison on a control worker, which has slots of their own for it."""
    return COMPARE | {"task_queue": ids.compare_queue(opened.deployment)}


def _noted(evidence: Evidence, note: str) -> Evidence:
    return evidence.model_copy(update={"notes": (*evidence.notes, note)})
