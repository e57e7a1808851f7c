"""A round of purges: the topics that are due, a hundred in each activity. Thin: who is due is asked once."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import PurgeRoundProgress, PurgeRoundRequest, TopicPage, TopicPageReport, TopicPages
    from workflows import ids
    from workflows.controls import Controls, InterruptedBySignal
    from workflows.options import CATALOG_WRITE, WAL_FLUSH
    from workflows.words import error_message


@workflow.defn(name=ids.PURGE_WAL_ROUND)
class PurgeWalRound(Controls):
    """Purge what is due. A page that fails keeps no other from going; its topics are due again with the next run."""

    def __init__(self) -> None:
        super().__init__()
        self._doing = "BEGINNING"
        self._left: list[TopicPage] = []
        self._all = 0
        self._report = TopicPageReport()

    @workflow.query
    def progress(self) -> PurgeRoundProgress:
        """Return what it does now."""
        return PurgeRoundProgress(
            doing=self._doing, pages=self._all, done=self._all - len(self._left), report=self._report
        )

    @workflow.run
    async def run(self, request: PurgeRoundRequest) -> TopicPageReport:
        """Purge; return what came of it, in numbers."""
        self._report = request.done
        due: TopicPages = await workflow.execute_activity_method(
            WalActivities.due_topics, request.after, **CATALOG_WRITE, summary="topics that are due"
        )
        self._left, self._all = list(due.pages), len(due.pages)
        while self._left and not self._cancel:
            if self._pause:
                self._say("PAUSED")
                await self.while_paused()
                continue
            self._say("PURGING")
            try:
                await self.run_until_signalled(self._work(due.at_once))
            except InterruptedBySignal:
                continue
        await self.while_paused()
        if due.more and not self._cancel:
            after = due.pages[-1].last
            workflow.continue_as_new(request.model_copy(update={"done": self._report, "after": after}))
        self._say("CANCELLED" if self._cancel else "ENDED")
        return self._report

    async def _work(self, at_once: int) -> None:
        turns = asyncio.Semaphore(at_once)
        pages = (self._page(page, turns) for page in list(self._left))
        ends = await asyncio.gather(*pages, return_exceptions=True)  # else the others would be left running
        for error in ends:
            if isinstance(error, BaseException):
                raise error

    async def _page(self, page: TopicPage, turns: asyncio.Semaphore) -> None:
        async with turns:
            try:
                told = await workflow.execute_activity_method(
                    WalActivities.purge_page, page, **WAL_FLUSH, summary=f"{page.first} to {page.last}"
                )
            except ActivityError as e:
                if is_cancelled_exception(e):  # by a signal, also one that was taken back since
                    raise
                told = TopicPageReport(faults=1, said=(error_message(e),))
        self._left.remove(page)
        self._report += told

    def _say(self, doing: str) -> None:
        self._doing, r = doing, self._report
        told = [f"**{doing}** {self._all - len(self._left)} of {self._all} pages", f"floors raised: {r.raised}"]
        told += [f"blocked: {r.blocked}, quarantined: {r.quarantined}, losses: {r.losses}, faults: {r.faults}", *r.said]
        workflow.set_current_details("\n".join(told))
