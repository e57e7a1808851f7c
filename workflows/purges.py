"""Purge the topics that are due, a hundred in each activity. The due topics are listed once per run."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import PurgeRoundProgress, PurgeRoundRequest, TopicPage, TopicPageReport, TopicPages
    from workflows import ids
    from workflows.controls import Controls, InterruptedBySignal
    from workflows.options import CATALOG_WRITE, WAL_FLUSH
    from workflows.words import words


@workflow.defn(name=ids.PURGE_WAL_ROUND)
class PurgeWalRound(Controls):
    """Purge the due topics. A page that fails stops no other; its topics are due again in the next run."""

    def __init__(self) -> None:
        super().__init__()
        self._doing = "BEGINNING"
        self._remaining: list[TopicPage] = []
        self._pages = 0
        self._report = TopicPageReport()

    @workflow.query
    def progress(self) -> PurgeRoundProgress:
        """Return what the round is doing."""
        done = self._pages - len(self._remaining)
        return PurgeRoundProgress(doing=self._doing, pages=self._pages, done=done, report=self._report)

    @workflow.run
    async def run(self, request: PurgeRoundRequest) -> TopicPageReport:
        """Purge the due topics; return the result in numbers."""
        self._report = request.done
        due: TopicPages = await workflow.execute_activity_method(
            WalActivities.due_topics, request.after, **CATALOG_WRITE, summary="topics that are due"
        )
        self._remaining, self._pages = list(due.pages), len(due.pages)
        while self._remaining and not self._cancel:
            if self._pause:
                self._show("PAUSED")
                await self.while_paused()
                continue
            self._show("PURGING")
            try:
                await self.unless_told(self._purge_pages(due.at_once))
            except InterruptedBySignal:
                continue
        await self.while_paused()
        if due.more and not self._cancel:
            after = due.pages[-1].last
            workflow.continue_as_new(request.model_copy(update={"done": self._report, "after": after}))
        self._show("CANCELLED" if self._cancel else "ENDED")
        return self._report

    async def _purge_pages(self, at_once: int) -> None:
        slots = asyncio.Semaphore(at_once)
        pages = (self._purge_page(page, slots) for page in list(self._remaining))
        # With return_exceptions all pages end before this method does: an error would leave the others running.
        results = await asyncio.gather(*pages, return_exceptions=True)
        for error in results:
            if isinstance(error, BaseException):
                raise error

    async def _purge_page(self, page: TopicPage, slots: asyncio.Semaphore) -> None:
        async with slots:
            try:
                report = await workflow.execute_activity_method(
                    WalActivities.purge_page, page, **WAL_FLUSH, summary=f"{page.first} to {page.last}"
                )
            except ActivityError as e:
                if is_cancelled_exception(e):  # cancelled by a signal, even if the signal was taken back since
                    raise
                report = TopicPageReport(faults=1, said=(words(e),))
        self._remaining.remove(page)
        self._report += report

    def _show(self, doing: str) -> None:
        """Show operators what the round is doing."""
        self._doing = doing
        report, done = self._report, self._pages - len(self._remaining)
        lines = [
            f"**{doing}** {done} of {self._pages} pages",
            f"floors raised: {report.raised}",
            f"blocked: {report.blocked}, quarantined: {report.quarantined}, losses: {report.losses}, "
            f"faults: {report.faults}",
            *report.said,
        ]
        workflow.set_current_details("\n".join(lines))
