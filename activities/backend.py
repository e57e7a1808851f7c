"""What is done beside a storage node, as an activity on its own queue. It may be repeated."""

from temporalio import activity

from activities.auto_heartbeat import AutoHeartbeat
from activities.refusals import refusals
from sexton.replication.agent.model import SweepOrder, Swept
from sexton.replication.agent.sweeping import BackendSweeper

SILENCE_SECONDS = 300.0
"""Between two pages lie at most a few requests, each tried several times, and a wait for the node's own writes."""


class BackendActivities:
    """One instance per storage node."""

    def __init__(self, sweeper: BackendSweeper) -> None:
        self._sweeper = sweeper

    @activity.defn(no_thread_cancel_exception=True)
    def sweep_cuts(self, order: SweepOrder) -> Swept:
        """Remove the binlogs below the cuts that this backend is granted, and say what is gone."""
        with refusals(), AutoHeartbeat(SILENCE_SECONDS) as heart:
            return self._sweeper.sweep(heart.heartbeat, order)
