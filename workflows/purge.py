"""Purge one topic: prepare, have regions flush, persist the floor, delete below it, record the result.

(GreptimeDB RFC, "remote WAL purge".) No lock is held: concurrent purges of a topic delete only below persisted floors.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import PurgeOutcome, PurgePreview, PurgeProgress, PurgeReport, PurgeRequest, purge_outcome
    from sexton.wal.model import Flushed, Purged
    from workflows import ids
    from workflows.details import error_message, is_permanent, show
    from workflows.options import MAX_TRIES, WAL_FLUSH, WAL_STEP, backoff
    from workflows.signals import Controls, RetryAfter, cancel_and_wait, stop_if_cancelled


@workflow.defn(name=ids.PURGE_WAL)
class PurgeWal(Controls):
    """Purge one topic, once."""

    @workflow.init
    def __init__(self, request: PurgeRequest) -> None:
        super().__init__()
        self._topic, self._doing, self._error = request.topic, "BEGINNING", ""
        self._on_topics = {"task_queue": ids.topic_queue(request.deployment)}
        self._on_flushes = {"task_queue": ids.flush_queue(request.deployment)}
        self._preview: PurgePreview | None = None
        self._flushed: Flushed | None = None
        self._skip_flush = False
        self._tries = 0

    @workflow.signal
    def purge_now(self) -> None:
        """Stop waiting for regions to flush: purge what may be deleted now."""
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
            backoff_seconds=self._backoff_seconds,
        )

    @workflow.run
    async def run(self, request: PurgeRequest) -> PurgeReport:
        """Purge the topic and return the report; a blocked topic is an outcome, not a failure.

        Raises:
            ApplicationError: of type ``ids.PURGE_FAILED`` when the log still refuses after ``MAX_TRIES`` attempts.
        """
        report = await self.run_with_retries(self._attempt)
        return self._close(report or PurgeReport(topic=request.topic, outcome=PurgeOutcome.CANCELLED))

    async def _attempt(self) -> PurgeReport | RetryAfter:
        """Purge once; ask for another attempt after a transient error, up to ``MAX_TRIES`` attempts."""
        try:
            purged = await self.run_until_signalled(self._flush_and_purge())
        except ActivityError as e:
            self._error = error_message(e)
            if is_permanent(e):
                raise
        else:
            transient_fault = bool(purged.fault) and purged.passes
            if not transient_fault:
                return PurgeReport(topic=self._topic, outcome=purge_outcome(purged), purged=purged)
            self._error = purged.fault
        self._tries += 1
        if self._tries >= MAX_TRIES:
            return PurgeReport(topic=self._topic, outcome=PurgeOutcome.FAILED)
        return RetryAfter(backoff(self._tries))

    async def _flush_and_purge(self) -> Purged:
        """Have lagging regions flush, unless an earlier attempt did; then purge."""
        if self._preview is None:
            self._show("PREPARING")
            self._preview = await workflow.execute_activity_method(
                WalActivities.prepare_purge,
                self._topic,
                **(WAL_STEP | self._on_topics),
                summary="find the regions that should flush",
            )
            stop_if_cancelled()
        should_flush = self._preview.behind > 0 and self._preview.flushes
        if should_flush and self._flushed is None and not self._skip_flush:
            self._show("FLUSHING")
            await self._flush()
            stop_if_cancelled()
        self._show("PURGING")
        return await workflow.execute_activity_method(
            WalActivities.purge_topic,
            self._topic,
            **(WAL_STEP | self._on_topics),
            summary="persist the floor, delete below, record",
        )

    async def _flush(self) -> None:
        """Wait for regions to flush, or for ``purge_now``. A flush that fails only means that less is deleted."""
        flushing = workflow.start_activity_method(
            WalActivities.flush_regions,
            self._topic,
            **(WAL_FLUSH | self._on_flushes),
            summary="ask regions to flush, and wait",
        )
        try:
            await workflow.wait_condition(lambda: self._skip_flush or flushing.done())
        except asyncio.CancelledError:  # only the wait was cancelled; the activity still runs
            await cancel_and_wait(flushing)
            raise
        if not flushing.done():
            flushing.cancel()
        try:
            self._flushed = await flushing
        except ActivityError as e:
            self._flushed = Flushed(silent={} if self._skip_flush else {"(flush)": error_message(e)})

    def _close(self, report: PurgeReport) -> PurgeReport:
        """Return the report with the flush and the error of the last attempt; raise where the purge failed."""
        error = "" if report.purged is not None and not report.purged.fault else self._error
        report = report.model_copy(update={"flushed": self._flushed or Flushed(), "error": error})
        self._show(report.outcome, report.purged)
        if report.outcome is PurgeOutcome.FAILED:
            fault = report.purged.fault if report.purged else ""
            raise ApplicationError(fault or report.error, type=ids.PURGE_FAILED, non_retryable=True)
        return report

    def _show(self, doing: str, purged: Purged | None = None) -> None:
        """Show in the Temporal UI what the purge is doing; ``purged``: at its end."""
        self._doing = doing
        lines = [f"entries freed: {purged.freed:,}"] if purged is not None else []
        if self._preview is not None:
            lines.append(f"regions that should flush: {self._preview.behind}")
        if self._error:
            lines.append(f"error: {self._error}")
        show(doing, self._topic, lines)
