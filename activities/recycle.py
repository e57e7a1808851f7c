"""Run the steps of a round as activities, with heartbeats, cancellation and error types."""

import logging
from typing import TYPE_CHECKING

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.kernel.live import Live
from sexton.recycle.model import RoundReport
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder, RangeReceipt
from sexton.recycle.planning.model import Plan, Policy
from sexton.recycle.rounds.model import CloseOrder, OpenedRound, OpenRoundOrder, RecycleRequest, ReleaseOrder

if TYPE_CHECKING:
    from sexton.recycle.rounds.recycler import Recycler
    from sexton.recycle.rounds.sql.store import RoundStore

log = logging.getLogger(__name__)


class RecycleActivities:
    """One instance per worker process. Every activity may be repeated."""

    def __init__(
        self,
        rounds: "RoundStore",
        recycler: "Recycler",
        policy: Policy | Live[Policy],
        *,
        heavy_objects: int | Live[int] | None = None,
        ranges_at_once: int = 4,
    ) -> None:
        """Store the ports and settings.

        Args:
            rounds: plans, rounds and reports.
            recycler: deletes ranges.
            policy: retentions and limits, those in force for an instance; each step reads them when it begins.
            heavy_objects: more objects than this are deleted on Spark; None: a control worker deletes all.
            ranges_at_once: ranges of one round that run at the same time.
        """
        self._rounds = rounds
        self._recycler = recycler
        self._policy = Live.of(policy)
        self._heavy_objects: Live[int | None] = Live.of(heavy_objects)
        self._ranges_at_once = ranges_at_once

    @activity.defn(no_thread_cancel_exception=True)
    def open_round(self, order: OpenRoundOrder) -> OpenedRound:
        """Acquire the lease for this run and open its round; retried until the lease or a slot is free."""
        with refusals(), AutoHeartbeat() as heartbeats:
            run = order.run or str(activity.info().workflow_run_id)
            opened = self._rounds.open(
                order.instance, run, order.plan, self._policy(order.instance), heartbeats.heartbeat
            )
            log.info("round %d of %s begins", opened.round, order.instance)
            opened = self._recycler.announce(opened, heartbeats.keep_alive)
            if not opened.may_delete:
                self._recycler.mark_due(opened, heartbeats.keep_alive)
            how = {"heavy_objects": self._heavy_objects(order.instance), "ranges_at_once": self._ranges_at_once}
            return opened.model_copy(update=how)

    @activity.defn(no_thread_cancel_exception=True)
    def abandon_round(self, order: OpenRoundOrder) -> RoundReport | None:
        """End a round that was cancelled, or refused, while it waited for its lease; return its report."""
        with refusals(), AutoHeartbeat():
            run = order.run or str(activity.info().workflow_run_id)
            return self._rounds.abandon(run, order.why, order.plan or 0, order.instance, order.state)

    @activity.defn(no_thread_cancel_exception=True)
    def release_lease(self, order: ReleaseOrder) -> None:
        """Release the lease while the round is paused or backs off."""
        with refusals(), AutoHeartbeat():
            self._rounds.release(order.opened, order.why, order.wait)

    @activity.defn(no_thread_cancel_exception=True)
    def make_plan(self, request: RecycleRequest) -> Plan:
        """Store a plan of the marks that this round may delete, and return it."""
        with refusals(), AutoHeartbeat() as heartbeats:
            by = request.requested_by or "round"
            return self._rounds.plan(request.instance, self._policy(request.instance), by, heartbeats.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def find_plan(self, plan: int) -> Plan:
        """Return the plan that the round applies."""
        with refusals(), AutoHeartbeat():
            return self._rounds.plans.find_plan(plan)

    @activity.defn(no_thread_cancel_exception=True)
    def adopt_claimed(self, order: AdoptOrder) -> RangeReceipt:
        """Finish the marks that earlier rounds claimed."""
        with refusals(), AutoHeartbeat() as heartbeats:
            order = self._rounds.checked_adoption(order, self._policy(order.lease.instance))
            return self._recycler.adopt(order, activity.info().attempt, heartbeats.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def recycle_range(self, order: RangeOrder) -> RangeReceipt:
        """Claim one range of due marks, delete their files, and settle the marks."""
        with refusals(), AutoHeartbeat() as heartbeats:
            order = self._rounds.checked_range(order, self._policy(order.lease.instance))
            receipt = self._recycler.recycle(order, activity.info().attempt, heartbeats.heartbeat)
        text = "%s, round %d: %s, range %d: %d marks claimed; %d objects of the kind deleted in the round"
        log.info(text, order.lease.instance, order.round, order.kind, order.number, receipt.claimed, receipt.objects)
        return receipt

    @activity.defn(no_thread_cancel_exception=True)
    def close_round(self, order: CloseOrder) -> RoundReport:
        """End the round and store its report."""
        with refusals(), AutoHeartbeat() as heartbeats:
            report = self._rounds.close(order)
            self._rounds.forget_expired(report.instance, heartbeats.keep_alive)
            if order.opened.may_delete and report.ended_at is not None:
                self._recycler.trim_log(report.instance, report.ended_at, heartbeats.keep_alive)
            level = logging.INFO if report.state == "SUCCEEDED" else logging.WARNING
            numbers = (report.claimed, report.deleted, report.failed)
            text = "round %d of %s ends: %s; %d marks claimed, %d objects deleted, %d failed"
            log.log(level, text, report.round, report.instance, report.state, *numbers)
            return report
