"""Purge the topics that are due and have work, in pages; one review of all due topics finds them.

A topic has a purge of its own, a workflow that waits and backs off, if its regions should flush first, or if its log
had a fault in a page, or the page itself. While such a purge runs or is paused, the round leaves the topic alone.
"""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import (
        PurgedPage,
        PurgeRequest,
        PurgeRoundProgress,
        PurgeRoundRequest,
        TopicCounts,
        TopicReview,
        TopicWork,
    )
    from workflows import ids, options
    from workflows.children import Scheduled, start
    from workflows.details import error_message, is_permanent, show
    from workflows.options import MAX_TRIES, WAL_STEP, backoff
    from workflows.purge import PurgeWal
    from workflows.search_attributes import Capability
    from workflows.signals import RETRY_NOW, Controls, InterruptedBySignal, RetryAfter, stop_if_cancelled

STARTS_AT_ONCE = 50
"""Purges that are started together. A pause or a cancel is respected between two such groups."""


@workflow.defn(name=ids.PURGE_WAL_ROUND)
class PurgeWalRound(Controls):
    """Purge due topics. Purges that it starts outlive this workflow; each has signals of its own."""

    @workflow.init
    def __init__(self, request: PurgeRoundRequest) -> None:
        super().__init__()
        self._deployment = request.deployment
        self._doing, self._error, self._tries = "BEGINNING", "", 0
        self._review: TopicReview | None = None
        self._to_purge: list[TopicWork] = []
        self._to_start: list[TopicWork] = []
        self._counts = request.done

    @workflow.query
    def progress(self) -> PurgeRoundProgress:
        """Return how far the round is."""
        return PurgeRoundProgress(
            doing=self._doing,
            remaining=len(self._to_purge) + len(self._to_start),
            counts=self._counts,
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff_seconds,
        )

    @workflow.run
    async def run(self, request: PurgeRoundRequest) -> TopicCounts:
        """Review the due topics, purge them, and return the counts.

        Raises:
            ApplicationError: of type ``ids.PURGE_FAILED`` when the review fails in each of ``MAX_TRIES`` attempts.
        """
        counts = await self.run_with_retries(lambda: self._attempt(request))
        self._show("CANCELLED" if counts is None else "ENDED")
        return self._counts

    async def _attempt(self, request: PurgeRoundRequest) -> TopicCounts | RetryAfter:
        """Review once, and purge what is left; ask for another attempt after a transient error."""
        try:
            if self._review is None:
                self._review = await self.run_until_signalled(self._review_topics(request.after))
            while self._to_purge:
                await self.run_until_signalled(self._purge_page())
        except ActivityError as e:
            self._error = error_message(e)
            self._tries += 1
            if self._tries < MAX_TRIES and not is_permanent(e):
                return RetryAfter(backoff(self._tries))
            if self._review is None:
                raise ApplicationError(self._error, type=ids.PURGE_FAILED, non_retryable=True) from e
            # Or this page would end each round, and the topics behind it would never be purged.
            self._end_page(PurgedPage(again=tuple(work.topic for work in self._to_purge[: options.PAGE_TOPICS])))
            self._counts += TopicCounts(reasons=(self._error,))
            self._tries = 0
            return RETRY_NOW
        await self._start_purges()
        if self._review.more:
            self._raise_if_signalled()
            done = {"done": self._counts, "after": self._review.after}
            workflow.continue_as_new(request.model_copy(update=done))
        return self._counts

    async def _review_topics(self, after: str) -> TopicReview:
        self._show("REVIEWING")
        review: TopicReview = await workflow.execute_activity_method(
            WalActivities.review_topics, after, **WAL_STEP, summary="find the due topics with work"
        )
        self._to_purge = [work for work in review.work if not work.flushes]
        self._to_start = [work for work in review.work if work.flushes]
        self._counts += review.counts
        return review

    async def _purge_page(self) -> None:
        """Purge the next topics, except those whose own purge runs or is paused."""
        self._show("PURGING")
        names = [work.topic for work in self._to_purge[: options.PAGE_TOPICS]]
        queue = {"task_queue": ids.topic_queue(self._deployment)}
        page: PurgedPage = await workflow.execute_activity_method(
            WalActivities.purge_topics, names, **(WAL_STEP | queue), summary=f"purge {len(names)} topics"
        )
        self._end_page(page)
        stop_if_cancelled()

    def _end_page(self, page: PurgedPage) -> None:
        """Count the next topics as done; those to try again get a purge of their own."""
        done, self._to_purge = self._to_purge[: options.PAGE_TOPICS], self._to_purge[options.PAGE_TOPICS :]
        self._to_start += [work for work in done if work.topic in page.again]
        self._counts += TopicCounts(purged=page.purged, running=page.running)

    async def _start_purges(self) -> None:
        """Start the purges that are not started yet. Raises ``InterruptedBySignal`` between two groups."""
        self._show("STARTING")
        while self._to_start:
            self._raise_if_signalled()
            group, self._to_start = self._to_start[:STARTS_AT_ONCE], self._to_start[STARTS_AT_ONCE:]
            started = await asyncio.gather(*(start(self._purge(topic), self._deployment) for topic in group))
            self._counts += TopicCounts(started=sum(started), running=len(group) - sum(started))
            self._show("STARTING")

    def _purge(self, work: TopicWork) -> Scheduled:
        deployment, topic = self._deployment, work.topic
        request = PurgeRequest(topic=topic, deployment=deployment, instance=work.instance, requested_by=ids.SCHEDULED)
        workflow_id = ids.purge_wal(deployment, topic)
        return Scheduled(PurgeWal.run, request, workflow_id, Capability.WAL, work.instance, f"purge topic {topic}")

    def _raise_if_signalled(self) -> None:
        if self._is_signalled:
            raise InterruptedBySignal

    def _show(self, doing: str) -> None:
        """Show the round's progress in the Temporal UI."""
        self._doing, counts = doing, self._counts
        lines = [
            f"due: {counts.topics}, purged: {counts.purged}, purges started: {counts.started}, "
            f"already running: {counts.running}",
            f"blocked: {counts.blocked}, quarantined: {counts.quarantined}, losses: {counts.losses}, "
            f"faults: {counts.faults}",
            *counts.reasons,
        ]
        if self._error:
            lines.append(f"error: {self._error}")
        remaining = len(self._to_purge) + len(self._to_start)
        show(doing, f"{remaining} topics to go" if remaining else "", lines)
