"""Garbage-collect the binlogs of one instance: cut expired records, then have backends delete below their cuts.

One activity decides the cuts. Each backend asks for its cuts when its task reaches it, and acknowledges them. A backend
that does not take its task delays no other: it asks for its cuts when it is back.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.backend import BackendActivities
    from activities.binlog import BinlogActivities
    from sexton.replication.agent.model import MAX_MESSAGES, SweepOrder, Swept
    from sexton.replication.binlog.model import Backends, CutReport, GcProgress, GcReport, GcRequest, WaitingOrder
    from workflows import ids
    from workflows.details import error_message, error_type, is_permanent, show
    from workflows.options import BACKEND_SWEEP, MAX_TRIES, SQL_READ, SQL_WRITE, backoff
    from workflows.signals import Controls, RetryAfter, stop_if_cancelled

REFUSALS = (ids.HALTED, ids.NOT_ENABLED)
"""Errors that end a run without a cut, but not as a failure: a stop, or observe mode."""


@workflow.defn(name=ids.GC_BINLOG)
class GcBinlog(Controls):
    """Garbage-collect an instance's binlogs, once."""

    def __init__(self) -> None:
        super().__init__()
        self._instance, self._doing, self._error = "", "BEGINNING", ""
        self._cut: CutReport | None = None
        self._after = ""  # the last backend of the pages listed so far
        self._remaining: list[str] = []
        self._more_backends = False
        self._swept, self._backends, self._away = Swept(), 0, 0
        self._messages: list[str] = []
        self._tries = 0

    @workflow.query
    def progress(self) -> GcProgress:
        """Return what the run is doing."""
        return GcProgress(
            instance=self._instance,
            doing=self._doing,
            cut=self._cut or CutReport(),
            swept=self._swept,
            waits=len(self._remaining),
            away=self._away,
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff_seconds,
        )

    @workflow.run
    async def run(self, request: GcRequest) -> GcReport:
        """Cut the binlogs, have backends delete below the cuts, and return the results, in numbers.

        Raises:
            ApplicationError: of type ``ids.GC_FAILED`` when no attempt of ``MAX_TRIES`` succeeded.
        """
        self._instance, self._cut, self._after = request.instance, request.cut, request.after
        self._swept, self._backends, self._away = request.swept, request.backends, request.away
        report = await self.run_with_retries(lambda: self._attempt(request))
        return report or self._close("CANCELLED")

    async def _attempt(self, request: GcRequest) -> GcReport | RetryAfter:
        """Cut and sweep once; ask for another attempt after a transient error, up to ``MAX_TRIES`` attempts."""
        try:
            await self.run_until_signalled(self._cut_and_sweep(request))
        except ActivityError as e:
            self._error = error_message(e)
            if error_type(e) in REFUSALS:
                self._cut = CutReport(refused=self._error)
                return self._close("ENDED")
            if is_permanent(e):
                raise
        else:
            if not self._more_backends:
                return self._close("ENDED")
            await self.while_paused()
            workflow.continue_as_new(self._continued(request))
        self._tries += 1
        if self._tries >= MAX_TRIES:
            raise ApplicationError(self._error, type=ids.GC_FAILED, non_retryable=True)
        return RetryAfter(backoff(self._tries))

    async def _cut_and_sweep(self, request: GcRequest) -> None:
        """Cut, unless an earlier attempt did; then have one page of backends delete."""
        if self._cut is None:
            self._show("CUTTING")
            self._cut = await workflow.execute_activity_method(
                BinlogActivities.cut_binlogs, self._instance, **SQL_WRITE, summary="cut what has expired"
            )
            stop_if_cancelled()
        if not self._remaining:
            await self._list_backends()
            stop_if_cancelled()
        self._show("SENDING")
        sweeps = (self._sweep_backend(request.deployment, name) for name in list(self._remaining))
        results = await asyncio.gather(*sweeps, return_exceptions=True)  # the first error must not abandon the others
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _list_backends(self) -> None:
        """Read the next page of backends that have binlogs to delete."""
        page: Backends = await workflow.execute_activity_method(
            BinlogActivities.waiting_backends,
            WaitingOrder(instance=self._instance, after=self._after),
            **SQL_READ,
            summary="list backends that have binlogs to delete",
        )
        self._remaining, self._more_backends = list(page.names), page.more
        if page.names:
            self._after = page.names[-1]

    async def _sweep_backend(self, deployment: str, backend: str) -> None:
        """Have one backend delete its binlogs below their cuts; its error is reported and stops no other backend."""
        try:
            swept = await workflow.execute_activity_method(
                BackendActivities.sweep_cuts,
                SweepOrder(instance=self._instance),
                task_queue=ids.backend_queue(deployment, backend),
                **BACKEND_SWEEP,
                summary=f"backend {backend}",
            )
        except ActivityError as e:
            if is_cancelled_exception(e):  # a signal interrupted it, even if that signal was taken back since
                raise
            self._away += 1
            self._messages = [*self._messages, f"backend {backend}: {error_message(e)}"][:MAX_MESSAGES]
        else:
            self._swept += swept
        self._remaining.remove(backend)
        self._backends += 1

    def _continued(self, request: GcRequest) -> GcRequest:
        """Return the request with which the next run continues this one."""
        results = {
            "cut": self._cut,
            "after": self._after,
            "swept": self._swept,
            "backends": self._backends,
            "away": self._away,
        }
        return request.model_copy(update=results)

    def _close(self, doing: str) -> GcReport:
        self._show(doing)
        return GcReport(
            instance=self._instance,
            cut=self._cut or CutReport(),
            swept=self._swept,
            backends=self._backends,
            away=self._away,
            cancelled=self._cancel,
            said=tuple(self._messages),
        )

    def _show(self, doing: str) -> None:
        """Show the run's progress in the Temporal UI."""
        self._doing, cut = doing, self._cut or CutReport()
        lines = [
            f"logs cut: {cut.cut}, records: {cut.records}",
            f"blocked: {cut.held}, waiting for approval: {cut.waiting}",
            f"backends: {self._backends} done, {len(self._remaining)} deleting, {self._away} did not answer",
        ]
        if cut.refused:
            lines.append(f"nothing was cut: {cut.refused}")
        if self._error:
            lines.append(f"error: {self._error}")
        show(doing, self._instance, [*lines, *self._messages])
