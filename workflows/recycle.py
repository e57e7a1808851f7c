"""One recycle round of one instance: adopt → plan → resolve, claim, delete, remove by ranges → report."""

import asyncio
from collections import Counter

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.recycle import RecycleActivities
    from sexton.recycle.model import (
        AdoptOrder,
        CloseOrder,
        Cursor,
        KindPlan,
        Opened,
        Plan,
        RangeOrder,
        RangeReceipt,
        RecycleRequest,
        RoundReport,
    )
    from workflows import ids
    from workflows.options import BATCH_DELETE, CATALOG_WRITE

MAX_LEASES = 5
"""Leases one run may take; it needs a new one when its worker was away for longer than a lease."""


@workflow.defn(name=ids.RECYCLE)
class RecycleInstance:
    """Finish what earlier rounds claimed, then delete what a plan says and nothing more."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._cursors: dict[str, Cursor] = {}
        self._numbers: Counter[str] = Counter()
        self._claimed: Counter[str] = Counter()
        self._scanned = 0
        self._held: Counter[str] = Counter()
        self._quarantined = 0
        self._finished: set[str] = set()

    @workflow.run
    async def run(self, request: RecycleRequest) -> RoundReport:
        """Run one round and return its report.

        Raises:
            ApplicationError: of type ``ids.ROUND_FAILED`` when a kind did not finish; the report is stored.
        """
        opened = await self._open(request)
        error = ""
        try:
            for _ in range(MAX_LEASES):
                error = await self._work(opened, request)
                if error != ids.LEASE_LOST:
                    break
                _stop_if_cancelled()
                opened = await self._open(request)
        except (asyncio.CancelledError, FailureError) as e:  # a bug fails the workflow task, and waits for its mending
            cause = "cancelled" if is_cancelled_exception(e) else str(e)
            await asyncio.shield(self._close(opened, cause))
            raise
        report = await self._close(opened, error)
        if error:
            told = f"round {report.round}: {error}"
            raise ApplicationError(told, report.round, type=ids.ROUND_FAILED, non_retryable=True)
        return report

    async def _open(self, request: RecycleRequest) -> Opened:
        return await workflow.execute_activity_method(RecycleActivities.open_round, request, **CATALOG_WRITE)

    async def _work(self, opened: Opened, request: RecycleRequest) -> str:
        """Return what went wrong, empty when nothing did; ``LeaseLost`` asks for another lease."""
        adopting = ""
        try:
            if opened.may_delete:
                adopting = await self._adopt(opened)
            if self._plan is None and request.plan is not None:
                self._plan = await workflow.execute_activity_method(
                    RecycleActivities.find_plan, request.plan, **CATALOG_WRITE
                )
            elif self._plan is None:
                self._plan = await workflow.execute_activity_method(
                    RecycleActivities.make_plan, request, **CATALOG_WRITE
                )
        except ActivityError as e:
            if is_cancelled_exception(e):
                raise
            return _told(e)
        if not opened.may_delete:
            return ""
        kinds = [k for k in self._plan.kinds if k.kind not in self._finished]
        # A failing kind does not cancel another.
        ends = await asyncio.gather(*(self._recycle(opened, self._plan, k) for k in kinds), return_exceptions=True)
        errors = [("adopt", adopting)] if adopting else []
        for kind, end in zip(kinds, ends, strict=True):
            if end is None:
                continue
            if not isinstance(end, ActivityError) or is_cancelled_exception(end):
                raise end
            errors.append((kind.kind, _told(end)))
        if any(told == ids.LEASE_LOST for _, told in errors):
            return ids.LEASE_LOST
        return "; ".join(f"{kind}: {told}" for kind, told in errors)

    async def _adopt(self, opened: Opened) -> str:
        """Finish what earlier rounds claimed; return what went wrong: it does not keep what is due from going."""
        order = AdoptOrder(
            round=opened.round, lease=opened.lease, upload_grace_seconds=opened.policy.upload_grace_seconds
        )
        try:
            receipt = await workflow.execute_activity_method(RecycleActivities.adopt_claimed, order, **BATCH_DELETE)
        except ActivityError as e:
            if is_cancelled_exception(e) or _told(e) == ids.LEASE_LOST:
                raise
            return _told(e)
        self._add(receipt)
        return ""

    async def _recycle(self, opened: Opened, plan: Plan, kind: KindPlan) -> None:
        name = kind.kind
        while name not in self._finished:
            order = RangeOrder(
                round=opened.round,
                number=self._numbers[name],
                lease=opened.lease,
                kind=name,
                cutoff=kind.cutoff,
                limit=kind.marks - self._claimed[name],
                after=self._cursors.get(name, Cursor()),
                upload_grace_seconds=plan.policy.upload_grace_seconds,
            )
            receipt = await workflow.execute_activity_method(RecycleActivities.recycle_range, order, **BATCH_DELETE)
            self._numbers[name] += 1
            self._claimed[name] += receipt.claimed
            self._cursors[name] = receipt.last
            if receipt.finished:
                self._finished.add(name)
            self._add(receipt)

    def _add(self, receipt: RangeReceipt) -> None:
        self._scanned += receipt.scanned
        self._held += Counter(receipt.held)
        self._quarantined += receipt.quarantined
        _stop_if_cancelled()

    async def _close(self, opened: Opened, error: str) -> RoundReport:
        plan = self._plan
        order = CloseOrder(
            opened=opened,
            plan=plan.id if plan else None,
            outcome="FAILED" if error else "SUCCEEDED",
            error=error,
            scanned=self._scanned,
            due=plan.marks if plan else 0,
            held=dict(self._held + Counter(plan.held if plan else {})),
            quarantined=self._quarantined,
        )
        return await workflow.execute_activity_method(RecycleActivities.close_round, order, **CATALOG_WRITE)


def _stop_if_cancelled() -> None:
    """Raise where this task was asked to stop: an activity that ended in the same moment swallowed the request."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _told(error: ActivityError) -> str:
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == ids.LEASE_LOST:
        return ids.LEASE_LOST
    return str(cause or error)
