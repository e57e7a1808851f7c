"""The steps of one recycle round, as activities: a thin layer that adds heartbeats, cancellation and error types."""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory, CancelledError

from sexton.errors import SextonError
from sexton.recycle.model import (
    AdoptOrder,
    CloseOrder,
    Opened,
    Plan,
    Policy,
    RangeOrder,
    RangeReceipt,
    RecycleRequest,
    RoundReport,
)
from sexton.recycle.port import Rounds
from sexton.recycle.steps import Recycler


class RecycleActivities:
    """One instance per worker process. Every activity may be repeated."""

    def __init__(self, rounds: Rounds, recycler: Recycler, policy: Policy) -> None:
        self._rounds = rounds
        self._recycler = recycler
        self._policy = policy

    @activity.defn
    def open_round(self, request: RecycleRequest) -> Opened:
        """Acquire the lease for this run and open its round."""
        with _refusals():
            run = str(activity.info().workflow_run_id)
            opened = self._rounds.open(request.instance, run, request.plan, self._policy)
            self._recycler.announce(opened)
            return opened

    @activity.defn
    def make_plan(self, request: RecycleRequest) -> Plan:
        """Fix what this round may delete."""
        with _refusals():
            return self._rounds.plan(request.instance, self._policy, request.requested_by or "round")

    @activity.defn
    def find_plan(self, plan: int) -> Plan:
        """Return the plan that is being applied."""
        with _refusals():
            return self._rounds.find_plan(plan)

    @activity.defn(no_thread_cancel_exception=True)
    def adopt_claimed(self, order: AdoptOrder) -> RangeReceipt:
        """Finish what earlier rounds claimed."""
        with _refusals():
            return self._recycler.adopt(order, activity.info().attempt, _pulse)

    @activity.defn(no_thread_cancel_exception=True)
    def recycle_range(self, order: RangeOrder) -> RangeReceipt:
        """Claim, delete and remove one range of due marks."""
        with _refusals():
            return self._recycler.recycle(order, activity.info().attempt, _pulse)

    @activity.defn
    def close_round(self, order: CloseOrder) -> RoundReport:
        """End the round and store its report."""
        with _refusals():
            return self._rounds.close(order)


def _pulse() -> None:
    """Heartbeat; stop between pages when cancelled. An exception in the thread could tear a transaction apart."""
    activity.heartbeat()
    if activity.is_cancelled():
        raise CancelledError("cancelled between pages")
    if activity.is_worker_shutdown():
        raise ApplicationError("the worker shuts down; another attempt goes on", type="WorkerShutdown")


@contextmanager
def _refusals() -> Iterator[None]:
    """Give refusals their class name as error type; retrying them as they are would not change the answer."""
    try:
        yield
    except SextonError as e:
        # Benign: a refusal is an answer, not a fault of the worker, and needs no traceback in its log.
        benign = ApplicationErrorCategory.BENIGN
        raise ApplicationError(str(e), type=type(e).__name__, non_retryable=not e.passes, category=benign) from e
