"""One check of one instance: list its vaults, read its records, look again at what is lost, conclude.

It deletes nothing. The workflow id is admission enough: what it writes are findings, and only its end draws conclusions
from them.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.check import CheckActivities
    from activities.spark import SparkActivities
    from sexton.check.model import (
        CheckReport,
        CheckRequest,
        ConcludeOrder,
        Evidence,
        LookOrder,
        OpenedCheck,
    )
    from workflows import ids
    from workflows.options import CATALOG_READ, CATALOG_WRITE, COMPARE, SPARK_WAIT
    from workflows.spark import on_spark, was_not_taken
    from workflows.words import words

NO_SPARK = "no Spark worker polls: compared by a control worker, which takes longer"
SPARK_BUSY = "no Spark worker took it within {seconds:.0f} s: compared by a control worker, which takes longer"


@workflow.defn(name=ids.CHECK)
class CheckInstance:
    """Compare metadata and objects, both ways."""

    @workflow.run
    async def run(self, request: CheckRequest) -> CheckReport:
        """Check once; a run that could not see everything ends too, and says what it lacks."""
        workflow.set_current_details("**BEGINNING**")
        opened = await workflow.execute_activity_method(
            CheckActivities.begin_check, request, **CATALOG_WRITE, summary=f"begin a check of {request.instance}"
        )
        evidence = Evidence(cutoff=opened.order.run.cutoff, listings=())
        try:
            workflow.set_current_details(f"**COMPARING** check {opened.order.run.id}")
            evidence = await self._compare(opened)
            workflow.set_current_details(f"**LOOKING AGAIN** check {opened.order.run.id}")
            evidence = await workflow.execute_activity_method(
                CheckActivities.look_again,
                LookOrder(order=opened.order, evidence=evidence),
                **COMPARE,
                summary="what is lost, once more; uploads; records",
            )
        except (asyncio.CancelledError, FailureError) as e:
            why = "cancelled" if is_cancelled_exception(e) else words(e)
            broken = evidence.model_copy(update={"errors": (*evidence.errors, why)})
            await asyncio.shield(self._conclude(opened, broken))
            raise
        return await self._conclude(opened, evidence)

    async def _compare(self, opened: OpenedCheck) -> Evidence:
        """Compare on Spark where there is much to compare and a Spark worker takes it; else here."""
        note = NO_SPARK
        queue = ids.spark_queue(opened.deployment) if opened.heavy else ""
        if queue and workflow.patched("check-asks-who-polls"):
            queue = await workflow.execute_activity_method(
                SparkActivities.find_spark, **CATALOG_READ, summary="who polls for Spark"
            )
        if queue:
            there = on_spark(queue)
            try:
                return await workflow.execute_activity_method(
                    CheckActivities.compare,
                    opened.order,
                    **(COMPARE | there),
                    summary="objects and records, on Spark",
                )
            except ActivityError as e:
                if not was_not_taken(e):
                    raise
                note = SPARK_BUSY.format(seconds=SPARK_WAIT.total_seconds())
        evidence = await workflow.execute_activity_method(
            CheckActivities.compare, opened.order, **COMPARE, summary="objects and records"
        )
        if opened.heavy:
            evidence = evidence.model_copy(update={"notes": (*evidence.notes, note)})
        return evidence

    async def _conclude(self, opened: OpenedCheck, evidence: Evidence) -> CheckReport:
        order = ConcludeOrder(instance=opened.order.instance, run=opened.order.run, evidence=evidence)
        report = await workflow.execute_activity_method(
            CheckActivities.conclude_check, order, **CATALOG_WRITE, summary="what it may conclude"
        )
        workflow.set_current_details("\n".join([f"**{report.run.state}** check {report.run.id}", *report.run.lacks]))
        return report
