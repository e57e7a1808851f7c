"""A look at an instance's binlogs: cut what has expired, and have backends let go of what they may.

Thin: what is cut is decided in one activity, and which backend lets go of what when it asks. A backend that takes
nothing is left behind; it asks by itself when it is back.
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
    from workflows.controls import Again, Controls, stop_if_cancelled
    from workflows.options import BACKEND_SWEEP, CATALOG_READ, CATALOG_WRITE, MAX_TRIES, backoff
    from workflows.words import error_message

KEPT_FROM_RUNNING = (ids.HALTED, ids.NOT_ENABLED)


@workflow.defn(name=ids.GC_BINLOG)
class GcBinlog(Controls):
    """Cut an instance's binlogs, once."""

    def __init__(self) -> None:
        super().__init__()
        self._instance, self._doing, self._error = "", "BEGINNING", ""
        self._cut: CutReport | None = None
        self._after = ""
        self._remaining: list[str] = []
        self._more = False
        self._swept, self._backends, self._away = Swept(), 0, 0
        self._messages: list[str] = []
        self._tries = 0

    @workflow.query
    def progress(self) -> GcProgress:
        """Return what it does now."""
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
        """Cut, and have backends let go; return what came of it, in numbers."""
        self._instance, self._cut, self._after = request.instance, request.cut, request.after
        self._swept, self._backends, self._away = request.swept, request.backends, request.away
        report = await self.run_with_retries(lambda: self._attempt(request))
        return report or self._end("CANCELLED")

    async def on_pause(self) -> None:
        self._say("PAUSED")

    async def on_backoff(self) -> None:
        self._say("BACKING OFF")

    async def _attempt(self, request: GcRequest) -> GcReport | Again:
        """Cut and send once; return ``Again`` after an error that may pass, up to ``MAX_TRIES`` times."""
        try:
            await self.run_until_signalled(self._work(request))
        except ActivityError as e:
            self._error, cause = error_message(e), e.cause
            if isinstance(cause, ApplicationError) and cause.type in KEPT_FROM_RUNNING:
                self._cut = CutReport(refused=self._error)
                return self._end("ENDED")
            if isinstance(cause, ApplicationError) and cause.non_retryable:
                raise
        else:
            if not self._more:
                return self._end("ENDED")
            await self.while_paused()
            workflow.continue_as_new(self._next(request))
        self._tries += 1
        if self._tries >= MAX_TRIES:
            raise ApplicationError(self._error, type=ids.GC_FAILED, non_retryable=True)
        return Again(backoff(self._tries))

    async def _work(self, request: GcRequest) -> None:
        if self._cut is None:
            self._say("CUTTING")
            self._cut = await workflow.execute_activity_method(
                BinlogActivities.cut_binlogs, self._instance, **CATALOG_WRITE, summary="cut what has expired"
            )
            stop_if_cancelled()
        if not self._remaining:
            found: Backends = await workflow.execute_activity_method(
                BinlogActivities.waiting_backends,
                WaitingOrder(instance=self._instance, after=self._after),
                **CATALOG_READ,
                summary="backends that have something to let go",
            )
            self._remaining, self._more = list(found.names), found.more
            self._after = found.names[-1] if found.names else self._after
            stop_if_cancelled()
        self._say("SENDING")
        sent = (self._send(request.deployment, name) for name in list(self._remaining))
        for error in await asyncio.gather(*sent, return_exceptions=True):  # else the others would be left running
            if isinstance(error, BaseException):
                raise error

    async def _send(self, deployment: str, backend: str) -> None:
        """Have one backend let go. Whatever becomes of it keeps no other waiting."""
        try:
            swept = await workflow.execute_activity_method(
                BackendActivities.sweep_cuts,
                SweepOrder(instance=self._instance),
                task_queue=ids.backend_queue(deployment, backend),
                **BACKEND_SWEEP,
                summary=f"backend {backend}",
            )
        except ActivityError as e:
            if is_cancelled_exception(e):  # by a signal, also one that was taken back since
                raise
            self._away += 1
            self._messages = [*self._messages, f"backend {backend}: {error_message(e)}"][:MAX_MESSAGES]
        else:
            self._swept += swept
        self._remaining.remove(backend)
        self._backends += 1

    def _next(self, request: GcRequest) -> GcRequest:
        done = {"cut": self._cut, "after": self._after, "swept": self._swept}
        return request.model_copy(update={**done, "backends": self._backends, "away": self._away})

    def _end(self, doing: str) -> GcReport:
        self._say(doing)
        return GcReport(
            instance=self._instance,
            cut=self._cut or CutReport(),
            swept=self._swept,
            backends=self._backends,
            away=self._away,
            cancelled=self._cancel,
            said=tuple(self._messages),
        )

    def _say(self, doing: str) -> None:
        self._doing, cut = doing, self._cut or CutReport()
        lines = [f"**{doing}** {self._instance}", f"logs cut: {cut.cut}, records: {cut.records}"]
        lines += [f"held: {cut.held}, waiting for approval: {cut.waiting}"]
        lines += [f"backends: {self._backends} done, {len(self._remaining)} under way, {self._away} away"]
        lines += [f"nothing was cut: {cut.refused}"] if cut.refused else []
        lines += [f"error: {self._error}"] if self._error else []
        workflow.set_current_details("\n".join([*lines, *self._messages]))
