"""Purge one topic: prepare, have regions flush, persist how far it may be purged, delete below, record.

(GreptimeDB RFC, "remote WAL purge".) No lock is held: no concurrent purge deletes above a persisted floor.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import PurgeOutcome, PurgePreview, PurgeProgress, PurgeReport, PurgeRequest, outcome
    from sexton.wal.model import Flushed, Purged
    from workflows import ids
    from workflows.controls import Controls, InterruptedBySignal, end, stop_if_cancelled
    from workflows.options import MAX_TRIES, WAL_FLUSH, WAL_PAGE, backoff
    from workflows.words import words


@workflow.defn(name=ids.PURGE_WAL)
class PurgeWal(Controls):
    """Purge one topic, once."""

    def __init__(self) -> None:
        super().__init__()
        self._topic, self._doing, self._error = "", "BEGINNING", ""
        self._preview: PurgePreview | None = None
        self._flushed: Flushed | None = None
        self._skip_flush = False
        self._tries, self._backoff = 0, 0.0

    @workflow.signal
    def purge_now(self) -> None:
        """Stop waiting for flushes: purge what may be deleted now."""
        self._skip_flush = True

    @workflow.query
    def progress(self) -> PurgeProgress:
        """Return what the purge is doing."""
        return PurgeProgress(
            topic=self._topic,
            doing=self._doing,
            behind=self._preview.behind if self._preview else 0,
            flushed=self._flushed or Flushed(),
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff,
        )

    @workflow.run
    async def run(self, request: PurgeRequest) -> PurgeReport:
        """Purge the topic; a blocked topic is a result, and only a refusal of the log fails."""
        self._topic = request.topic
        while True:
            if self._pause:
                self._show("PAUSED")
                await self.while_paused()
            if self._cancel:
                return self._finish(PurgeReport(topic=self._topic, outcome=PurgeOutcome.CANCELLED))
            try:
                purged = await self.unless_told(self._work())
            except InterruptedBySignal:
                continue
            except ActivityError as e:
                self._error = words(e)
                if isinstance(e.cause, ApplicationError) and e.cause.non_retryable:
                    raise
            else:
                if not (purged.fault and purged.passes):
                    return self._finish(PurgeReport(topic=self._topic, outcome=outcome(purged), purged=purged))
                self._error = purged.fault
            self._tries += 1
            if self._tries >= MAX_TRIES:
                return self._finish(PurgeReport(topic=self._topic, outcome=PurgeOutcome.FAILED))
            await self._back_off()

    async def _work(self) -> Purged:
        if self._preview is None:
            self._show("PREPARING")
            self._preview = await workflow.execute_activity_method(
                WalActivities.prepare_purge, self._topic, **WAL_PAGE, summary="what blocks it, and which regions flush"
            )
            stop_if_cancelled()
        if self._preview.behind and self._preview.flushes and self._flushed is None and not self._skip_flush:
            self._show("FLUSHING")
            await self._flush()
            stop_if_cancelled()
        self._show("PURGING")
        return await workflow.execute_activity_method(
            WalActivities.purge_topic, self._topic, **WAL_PAGE, summary="persist the floor, delete below, record"
        )

    async def _flush(self) -> None:
        """Wait for flushes, until an operator ends the wait. Without them less is deleted; nothing fails."""
        flushing = workflow.start_activity_method(
            WalActivities.flush_regions, self._topic, **WAL_FLUSH, summary="ask regions to flush, and wait"
        )
        try:
            await workflow.wait_condition(lambda: self._skip_flush or flushing.done())
        except asyncio.CancelledError:  # the wait was cancelled, not the activity: end it too
            await end(flushing)
            raise
        if not flushing.done():
            flushing.cancel()
        try:
            self._flushed = await flushing
        except ActivityError as e:
            self._flushed = Flushed(silent={} if self._skip_flush else {"(flush)": words(e)})

    async def _back_off(self) -> None:
        """Wait before the next try, or until an operator signals ``retry``."""
        self._backoff, retries_before = backoff(self._tries), self._kicks
        self._show("BACKING OFF")
        await self.back_off(self._backoff, retries_before)
        self._backoff = 0.0

    def _finish(self, report: PurgeReport) -> PurgeReport:
        report = report.model_copy(update={"flushed": self._flushed or Flushed(), "error": self._error})
        if report.purged is not None and not report.purged.fault:
            report = report.model_copy(update={"error": ""})
        self._show(report.outcome)
        if report.outcome is PurgeOutcome.FAILED:
            fault = report.purged.fault if report.purged else ""
            raise ApplicationError(fault or report.error, type=ids.PURGE_FAILED, non_retryable=True)
        return report

    def _show(self, doing: str) -> None:
        """Show operators what the purge is doing."""
        self._doing = doing
        lines = [f"**{doing}** {self._topic}"]
        if self._preview is not None:
            lines.append(f"regions that should flush: {self._preview.behind}")
        if self._error:
            lines.append(f"error: {self._error}")
        workflow.set_current_details("\n".join(lines))
