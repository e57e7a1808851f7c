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
    from activities.spark import SparkActivities
    from sexton.check.model import (
        CheckOrder,
        CheckReport,
        CheckRequest,
        ConcludeOrder,
        Evidence,
        OpenedCheck,
        SecondCheckOrder,
    )
    from workflows import ids, options
    from workflows.details import show
    from workflows.errors import error_message, error_type
    from workflows.options import CATALOG_READ, CATALOG_WRITE, COMPARE
    from workflows.spark import on_spark, was_not_taken

ON_SPARK = "compared on Spark"
NO_SPARK = "no Spark worker is free: compared by a control worker, which takes longer"
SPARK_BUSY = "no Spark worker took it within {seconds:.0f} s: compared by a control worker, which takes longer"


@workflow.defn(name=ids.CHECK)
class CheckInstance:
    """Compare an instance's records with its objects, in both directions."""

    @workflow.run
    async def run(self, request: CheckRequest) -> CheckReport:
        """Check once and return the report; an incomplete check reports the inputs that it lacks."""
        show("BEGINNING")
        opened = await workflow.execute_activity_method(
            CheckActivities.begin_check, request, **CATALOG_WRITE, summary=f"begin a check of {request.instance}"
        )
        evidence = Evidence(cutoff=opened.order.run.cutoff, listings=())
        try:
            show("COMPARING", f"check {opened.order.run.id}")
            evidence = await self._compare(opened)
            show("CHECKING LOST OBJECTS AGAIN", f"check {opened.order.run.id}")
            evidence = await workflow.execute_activity_method(
                CheckActivities.look_again,
                SecondCheckOrder(order=opened.order, evidence=evidence),
                **_by_control_worker(opened),
                summary="check lost objects again, uploads and records",
            )
        except (asyncio.CancelledError, FailureError) as e:
            error = "cancelled" if is_cancelled_exception(e) else error_message(e)
            incomplete = evidence.model_copy(update={"errors": (*evidence.errors, error)})
            await asyncio.shield(self._conclude(opened, incomplete))
            raise
        return await self._conclude(opened, evidence)

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
        note, queue = NO_SPARK, ids.spark_queue(opened.deployment)
        if workflow.patched("check-asks-who-polls"):
            queue = await workflow.execute_activity_method(
                SparkActivities.find_spark, **CATALOG_READ, summary="find Spark workers"
            )
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

    async def _conclude(self, opened: OpenedCheck, evidence: Evidence) -> CheckReport:
        order = ConcludeOrder(instance=opened.order.instance, run=opened.order.run, evidence=evidence)
        report = await workflow.execute_activity_method(
            CheckActivities.conclude_check, order, **CATALOG_WRITE, summary="conclude the check"
        )
        show(report.run.state, f"check {report.run.id}", report.run.missing_inputs)
        return report


def _by_control_worker(opened: OpenedCheck) -> dict[str, Any]:
    """Return the options of a comparison on a control worker, which has slots of their own for it."""
    return COMPARE | {"task_queue": ids.compare_queue(opened.deployment)}


def _noted(evidence: Evidence, note: str) -> Evidence:
    return evidence.model_copy(update={"notes": (*evidence.notes, note)})
