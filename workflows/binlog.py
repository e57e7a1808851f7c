"""The workflow of binlog GC: cut an instance's expired records, then let its backends delete their binlogs.

One activity decides what is cut; what a backend may delete is decided when it pulls. A backend that does not take its
task is left out: it pulls by itself when it is back.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.backend import BackendActivities
    from activities.binlog import BinlogActivities
    from sexton.replication.agent.model import MAX_MESSAGES, SweepOrder, Swept
    from sexton.replication.binlog.messages import Backends, GcProgress, GcReport, GcRequest, WaitingOrder
    from sexton.replication.binlog.model import CutReport
    from workflows import ids
    from workflows.controls import Controls, InterruptedBySignal, stop_if_cancelled
    from workflows.options import BACKEND_SWEEP, CATALOG_READ, CATALOG_WRITE, MAX_TRIES, backoff
    from workflows.words import words

FORBIDDEN_BY_CONTROLS = (ids.HALTED, ids.NOT_ENABLED)
"""Errors that end a run: an operator's stop, list or window, or observe mode."""


@workflow.defn(name=ids.GC_BINLOG)
class GcBinlog(Controls):
    """Cut an instance's binlogs, once."""

    def __init__(self) -> None:
        super().__init__()
        self._instance, self._doing, self._error = "", "BEGINNING", ""
        self._cut: CutReport | None = None
        self._after = ""
        self._remaining: list[str] = []
        """The backends of the current page that are not finished."""
        self._more = False
        self._swept, self._backends, self._away = Swept(), 0, 0
        self._messages: list[str] = []
        self._tries, self._backoff = 0, 0.0

    @workflow.query
    def progress(self) -> GcProgress:
        """Return the progress of the run."""
        return GcProgress(
            instance=self._instance,
            doing=self._doing,
            cut=self._cut or CutReport(),
            swept=self._swept,
            waits=len(self._remaining),
            away=self._away,
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff,
        )

    @workflow.run
    async def run(self, request: GcRequest) -> GcReport:
        """Cut, and let backends delete; return the result in numbers."""
        self._instance, self._cut, self._after = request.instance, request.cut, request.after
        self._swept, self._backends, self._away = request.swept, request.backends, request.away
        while True:
            if self._pause:
                self._show("PAUSED")
                await self.while_paused()
            if self._cancel:
                return self._end("CANCELLED")
            try:
                await self.unless_told(self._work(request))
            except InterruptedBySignal:
                continue
            except ActivityError as e:
                if self._is_forbidden(e):
                    return self._end("ENDED")
            else:
                if not self._more:
                    return self._end("ENDED")
                await self.while_paused()
                workflow.continue_as_new(self._next(request))
            await self._wait_for_retry()

    def _is_forbidden(self, error: ActivityError) -> bool:
        """Record an error; tell whether the controls forbid the run, and raise it if it cannot be retried."""
        self._error, cause = words(error), error.cause
        if not isinstance(cause, ApplicationError):
            return False
        if cause.type in FORBIDDEN_BY_CONTROLS:
            self._cut = CutReport(refused=self._error)
            return True
        if cause.non_retryable:
            raise error
        return False

    async def _wait_for_retry(self) -> None:
        """Wait before the next try; raise the last error after ``MAX_TRIES``."""
        self._tries += 1
        if self._tries >= MAX_TRIES:
            raise ApplicationError(self._error, type=ids.GC_FAILED, non_retryable=True)
        self._backoff, kicks = backoff(self._tries), self._kicks
        self._show("BACKING OFF")
        await self.back_off(self._backoff, kicks)
        self._backoff = 0.0

    async def _work(self, request: GcRequest) -> None:
        if self._cut is None:
            self._show("CUTTING")
            self._cut = await workflow.execute_activity_method(
                BinlogActivities.cut_binlogs, self._instance, **CATALOG_WRITE, summary="cut expired records"
            )
            stop_if_cancelled()
        if not self._remaining:
            await self._find_backends()
            stop_if_cancelled()
        self._show("SENDING")
        sweeps = (self._sweep(request.deployment, name) for name in list(self._remaining))
        # Wait for all of them: an error of one must not leave the others running unobserved.
        for error in await asyncio.gather(*sweeps, return_exceptions=True):
            if isinstance(error, BaseException):
                raise error

    async def _find_backends(self) -> None:
        page: Backends = await workflow.execute_activity_method(
            BinlogActivities.waiting_backends,
            WaitingOrder(instance=self._instance, after=self._after),
            **CATALOG_READ,
            summary="find backends that have binlogs to delete",
        )
        self._remaining, self._more = list(page.names), page.more
        self._after = page.names[-1] if page.names else self._after

    async def _sweep(self, deployment: str, backend: str) -> None:
        """Let one backend delete its binlogs. Its failure stops no other backend."""
        try:
            swept = await workflow.execute_activity_method(
                BackendActivities.sweep_cuts,
                SweepOrder(instance=self._instance),
                task_queue=ids.backend_queue(deployment, backend),
                **BACKEND_SWEEP,
                summary=f"backend {backend}",
            )
        except ActivityError as e:
            if is_cancelled_exception(e):  # by a signal, even if it was taken back since
                raise
            self._away += 1
            self._messages = [*self._messages, f"backend {backend}: {words(e)}"][:MAX_MESSAGES]
        else:
            self._swept += swept
        self._remaining.remove(backend)
        self._backends += 1

    def _next(self, request: GcRequest) -> GcRequest:
        progress = {"cut": self._cut, "after": self._after, "swept": self._swept}
        return request.model_copy(update={**progress, "backends": self._backends, "away": self._away})

    def _end(self, doing: str) -> GcReport:
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
        self._doing, cut = doing, self._cut or CutReport()
        lines = [f"**{doing}** {self._instance}", f"logs cut: {cut.cut}, records: {cut.records}"]
        lines += [f"held: {cut.held}, waiting for approval: {cut.waiting}"]
        lines += [f"backends: {self._backends} done, {len(self._remaining)} under way, {self._away} away"]
        lines += [f"nothing was cut: {cut.refused}"] if cut.refused else []
        lines += [f"error: {self._error}"] if self._error else []
        workflow.set_current_details("\n".join([*lines, *self._messages]))
