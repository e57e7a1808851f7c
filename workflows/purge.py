"""The purge of one topic: prepare, have regions flush, persist how far it may go, delete below, record.

(GreptimeDB RFC, "remote WAL purge".) No lock is held: whoever purges beside it goes no further than a persisted floor.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import PurgeOutcome, PurgePreview, PurgeProgress, PurgeReport, PurgeRequest, purge_outcome
    from sexton.wal.model import Flushed, Purged
    from workflows import ids
    from workflows.controls import Again, Controls, cancel_and_wait, stop_if_cancelled
    from workflows.options import MAX_TRIES, WAL_FLUSH, WAL_PAGE, backoff
    from workflows.words import error_message


@workflow.defn(name=ids.PURGE_WAL)
class PurgeWal(Controls):
    """Purge one topic, once."""

    def __init__(self) -> None:
        super().__init__()
        self._topic, self._doing, self._error = "", "BEGINNING", ""
        self._looked: PurgePreview | None = None
        self._flushed: Flushed | None = None
        self._now = False
        self._tries = 0

    @workflow.signal
    def purge_now(self) -> None:
        """Wait for no flush any more: purge what may go now."""
        self._now = True

    @workflow.query
    def progress(self) -> PurgeProgress:
        """Return what it does now."""
        return PurgeProgress(
            topic=self._topic,
            doing=self._doing,
            behind=self._looked.behind if self._looked else 0,
            flushed=self._flushed or Flushed(),
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff_seconds,
        )

    @workflow.run
    async def run(self, request: PurgeRequest) -> PurgeReport:
        """Purge; a topic that is blocked is reported as such, and only what the log refuses fails."""
        self._topic = request.topic
        report = await self.run_with_retries(self._attempt)
        return self._end(report or PurgeReport(topic=self._topic, outcome=PurgeOutcome.CANCELLED))

    async def on_pause(self) -> None:
        self._say("PAUSED")

    async def on_backoff(self) -> None:
        self._say("BACKING OFF")

    async def _attempt(self) -> PurgeReport | Again:
        """Purge once; return ``Again`` after an error that may pass, up to ``MAX_TRIES`` times."""
        try:
            purged = await self.run_until_signalled(self._work())
        except ActivityError as e:
            self._error = error_message(e)
            if isinstance(e.cause, ApplicationError) and e.cause.non_retryable:
                raise
        else:
            if not (purged.fault and purged.passes):
                return PurgeReport(topic=self._topic, outcome=purge_outcome(purged), purged=purged)
            self._error = purged.fault
        self._tries += 1
        if self._tries >= MAX_TRIES:
            return PurgeReport(topic=self._topic, outcome=PurgeOutcome.FAILED)
        return Again(backoff(self._tries))

    async def _work(self) -> Purged:
        if self._looked is None:
            self._say("PREPARING")
            self._looked = await workflow.execute_activity_method(
                WalActivities.prepare_purge, self._topic, **WAL_PAGE, summary="who holds it, and who should flush"
            )
            stop_if_cancelled()
        if self._looked.behind and self._looked.flushes and self._flushed is None and not self._now:
            self._say("FLUSHING")
            await self._flush()
            stop_if_cancelled()
        self._say("PURGING")
        return await workflow.execute_activity_method(
            WalActivities.purge_topic, self._topic, **WAL_PAGE, summary="persist the floor, delete below, record"
        )

    async def _flush(self) -> None:
        """Wait for flushes, until somebody says that it has been long enough. Without them less goes; nothing fails."""
        flushing = workflow.start_activity_method(
            WalActivities.flush_regions, self._topic, **WAL_FLUSH, summary="ask regions to flush, and wait"
        )
        try:
            await workflow.wait_condition(lambda: self._now or flushing.done())
        except asyncio.CancelledError:  # its own waiting is not the flush's
            await cancel_and_wait(flushing)
            raise
        if not flushing.done():
            flushing.cancel()
        try:
            self._flushed = await flushing
        except ActivityError as e:
            self._flushed = Flushed(silent={} if self._now else {"(flush)": error_message(e)})

    def _end(self, report: PurgeReport) -> PurgeReport:
        report = report.model_copy(update={"flushed": self._flushed or Flushed(), "error": self._error})
        if report.purged is not None and not report.purged.fault:
            report = report.model_copy(update={"error": ""})
        self._say(report.outcome)
        if report.outcome is PurgeOutcome.FAILED:
            why = report.purged.fault if report.purged else report.error
            raise ApplicationError(why or report.error, type=ids.PURGE_FAILED, non_retryable=True)
        return report

    def _say(self, doing: str) -> None:
        self._doing = doing
        lines = [f"**{doing}** {self._topic}"]
        if self._looked is not None:
            lines.append(f"regions that should flush: {self._looked.behind}")
        if self._error:
            lines.append(f"error: {self._error}")
        workflow.set_current_details("\n".join(lines))
