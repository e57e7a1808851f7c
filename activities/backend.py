"""Delete the binlogs of one storage node, as an activity on that node's own task queue. It may be repeated."""

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.replication.agent.model import SweepOrder, Swept
from sexton.replication.agent.sweeping import BackendSweeper

SILENCE_SECONDS = 300.0
"""Between two heartbeats are at most a few requests, each tried several times, and a wait for the node's own writes."""


class BackendActivities:
    """The activities beside one storage node."""

    def __init__(self, sweeper: BackendSweeper) -> None:
        self._sweeper = sweeper

    @activity.defn(no_thread_cancel_exception=True)
    def sweep_cuts(self, order: SweepOrder) -> Swept:
        """Delete the binlogs up to the cuts that this backend is granted, and acknowledge them."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS) as heart:
            return self._sweeper.sweep(heart.heartbeat, order)
