"""Start one purge for each topic that is due and has work; one review of all due topics finds them."""

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from activities.wal import WalActivities
    from sexton.wal.messages import (
        PurgeRequest,
        PurgeRoundProgress,
        PurgeRoundRequest,
        TopicCounts,
        TopicReview,
        TopicWork,
    )
    from workflows import ids
    from workflows.children import Scheduled, start
    from workflows.details import error_message, is_permanent, show
    from workflows.options import MAX_TRIES, WAL_STEP, backoff
    from workflows.purge import PurgeWal
    from workflows.search_attributes import Capability
    from workflows.signals import Controls, InterruptedBySignal, RetryAfter

STARTS_AT_ONCE = 50
"""Purges that are started together. A pause or a cancel is respected between two such groups."""


@workflow.defn(name=ids.PURGE_WAL_ROUND)
class PurgeWalRound(Controls):
    """Start the purges of due topics. They outlive this workflow; each has signals of its own."""

    @workflow.init
    def __init__(self, request: PurgeRoundRequest) -> None:
        super().__init__()
        self._deployment = request.deployment
        self._doing, self._error, self._tries = "BEGINNING", "", 0
        self._review: TopicReview | None = None
        self._remaining: list[TopicWork] = []
        self._counts = request.done

    @workflow.query
    def progress(self) -> PurgeRoundProgress:
        """Return how far the round is."""
        return PurgeRoundProgress(
            doing=self._doing,
            remaining=len(self._remaining),
            counts=self._counts,
            tries=self._tries,
            error=self._error,
            backoff_seconds=self._backoff_seconds,
        )

    @workflow.run
    async def run(self, request: PurgeRoundRequest) -> TopicCounts:
        """Review the due topics, start the purges, and return the counts.

        Raises:
            ApplicationError: of type ``ids.PURGE_FAILED`` when no attempt of ``MAX_TRIES`` could review the topics.
        """
        counts = await self.run_with_retries(lambda: self._attempt(request))
        self._show("CANCELLED" if counts is None else "ENDED")
        return self._counts

    async def _attempt(self, request: PurgeRoundRequest) -> TopicCounts | RetryAfter:
        """Review once; ask for another attempt after a transient error. Then start the purges."""
        try:
            if self._review is None:
                self._review = await self.run_until_signalled(self._review_topics(request.after))
        except ActivityError as e:
            self._error = error_message(e)
            if is_permanent(e):
                raise
            self._tries += 1
            if self._tries >= MAX_TRIES:
                raise ApplicationError(self._error, type=ids.PURGE_FAILED, non_retryable=True) from e
            return RetryAfter(backoff(self._tries))
        self._show("STARTING")
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
        self._remaining = list(review.work)
        self._counts += review.counts
        return review

    async def _start_purges(self) -> None:
        """Start the purges that are not started yet. Raises ``InterruptedBySignal`` between two groups."""
        while self._remaining:
            self._raise_if_signalled()
            group, self._remaining = self._remaining[:STARTS_AT_ONCE], self._remaining[STARTS_AT_ONCE:]
            started = await asyncio.gather(*(start(self._purge(topic), self._deployment) for topic in group))
            numbers = TopicCounts(started=sum(started), running=len(group) - sum(started))
            self._counts += numbers
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
            f"due: {counts.topics}, purges started: {counts.started}, already running: {counts.running}",
            f"blocked: {counts.blocked}, quarantined: {counts.quarantined}, losses: {counts.losses}, "
            f"faults: {counts.faults}",
            *counts.reasons,
        ]
        if self._error:
            lines.append(f"error: {self._error}")
        show(doing, f"{len(self._remaining)} purges to start" if self._remaining else "", lines)
