"""Purge the topics that are due, in pages of a hundred topics; one activity purges a page.

The activity ``due_topics`` decides once per run which topics are due.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import PurgeRoundProgress, PurgeRoundRequest, TopicPage, TopicPageReport, TopicPages
    from workflows import ids
    from workflows.details import show
    from workflows.errors import error_message
    from workflows.options import CATALOG_WRITE, WAL_FLUSH
    from workflows.signals import Controls, InterruptedBySignal


@workflow.defn(name=ids.PURGE_WAL_ROUND)
class PurgeWalRound(Controls):
    """Purge due topics. A page that fails stops no other page; its topics are due again in the next round."""

    def __init__(self) -> None:
        super().__init__()
        self._doing = "BEGINNING"
        self._remaining: list[TopicPage] = []
        self._page_count = 0
        self._report = TopicPageReport()

    @workflow.query
    def progress(self) -> PurgeRoundProgress:
        """Return how far the round is."""
        return PurgeRoundProgress(
            doing=self._doing, pages=self._page_count, done=self._pages_done(), report=self._report
        )

    @workflow.run
    async def run(self, request: PurgeRoundRequest) -> TopicPageReport:
        """Purge the due topics and return the results, in numbers."""
        self._report = request.done
        due: TopicPages = await workflow.execute_activity_method(
            WalActivities.due_topics, request.after, **CATALOG_WRITE, summary="topics that are due"
        )
        self._remaining, self._page_count = list(due.pages), len(due.pages)
        while self._remaining and not self._cancel:
            if self._pause:
                self._show("PAUSED")
                await self.while_paused()
                continue
            self._show("PURGING")
            try:
                await self.run_until_signalled(self._purge_pages(due.at_once))
            except InterruptedBySignal:
                continue
        await self.while_paused()
        if due.more and not self._cancel:
            after = due.pages[-1].last
            workflow.continue_as_new(request.model_copy(update={"done": self._report, "after": after}))
        self._show("CANCELLED" if self._cancel else "ENDED")
        return self._report

    async def _purge_pages(self, at_once: int) -> None:
        """Purge all remaining pages, at most ``at_once`` at the same time."""
        slots = asyncio.Semaphore(at_once)
        purges = (self._purge_page(page, slots) for page in list(self._remaining))
        results = await asyncio.gather(*purges, return_exceptions=True)  # the first error must not abandon the others
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _purge_page(self, page: TopicPage, slots: asyncio.Semaphore) -> None:
        """Purge one page of topics; an error becomes a fault in the report."""
        async with slots:
            try:
                report = await workflow.execute_activity_method(
                    WalActivities.purge_page, page, **WAL_FLUSH, summary=f"{page.first} to {page.last}"
                )
            except ActivityError as e:
                if is_cancelled_exception(e):  # a signal interrupted it, even if that signal was taken back since
                    raise
                report = TopicPageReport(faults=1, said=(error_message(e),))
        self._remaining.remove(page)
        self._report += report

    def _pages_done(self) -> int:
        return self._page_count - len(self._remaining)

    def _show(self, doing: str) -> None:
        """Show the round's progress in the Temporal UI."""
        self._doing, report = doing, self._report
        lines = [
            f"floors raised: {report.raised}",
            f"blocked: {report.blocked}, quarantined: {report.quarantined}, losses: {report.losses}, "
            f"faults: {report.faults}",
            *report.said,
        ]
        show(doing, f"{self._pages_done()} of {self._page_count} pages", lines)
