"""Run the steps of a check as activities, with heartbeats, cancellation and error types."""

import logging
from typing import TYPE_CHECKING

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.check.model import (
    CheckOrder,
    CheckReport,
    CheckRequest,
    Compare,
    ConcludeOrder,
    Evidence,
    OpenedCheck,
    SecondCheckOrder,
)

if TYPE_CHECKING:
    from sexton.check.checker import Checker

log = logging.getLogger(__name__)
STATEMENT_SECONDS = 1_800.0
"""How long one statement over all records, or one listing of a vault's folders, may take. A check has no lease."""


class CheckActivities:
    """The activities of checks: one object per worker process. Every activity may be repeated."""

    def __init__(self, checker: "Checker", how: Compare, deployment: str) -> None:
        """``how``: the way in which this worker compares objects with records."""
        self._checker, self._how, self._deployment = checker, how, deployment

    @activity.defn(no_thread_cancel_exception=True)
    def begin_check(self, request: CheckRequest) -> OpenedCheck:
        """Begin a check and return its order."""
        with refusals(), AutoHeartbeat():
            opened = self._checker.begin(request, str(activity.info().workflow_run_id))
            log.info("check %d of %s begins", opened.order.run.id, request.instance)
            return opened.model_copy(update={"deployment": self._deployment})

    @activity.defn(no_thread_cancel_exception=True)
    def compare(self, order: CheckOrder) -> Evidence:
        """Compare objects with records."""
        with refusals(), AutoHeartbeat(STATEMENT_SECONDS) as heart:
            return self._checker.compare(self._how, order, heart.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def look_again(self, order: SecondCheckOrder) -> Evidence:
        """Check LOST and SIZE_MISMATCH findings again; find unfinished uploads and contradicting records."""
        with refusals(), AutoHeartbeat(STATEMENT_SECONDS) as heart:
            return self._checker.check_again(order.order, order.evidence, heart.heartbeat)

    @activity.defn(no_thread_cancel_exception=True)
    def conclude_check(self, order: ConcludeOrder) -> CheckReport:
        """End the check and return its report."""
        with refusals(), AutoHeartbeat():
            report = self._checker.conclude(order)
            run, numbers = report.run, (sum(report.found.values()), sum(report.confirmed.values()))
            text = "check %d of %s ends: %s; %d findings open, %d confirmed"
            log.info(text, run.id, run.instance, run.state, *numbers)
            return report
