"""Whose turn it is, and telling the schedule that a slot is free."""

from collections.abc import Awaitable, Callable

from temporalio import activity

from activities.refusals import refusals
from sexton.recycle.model import DueInstances
from sexton.recycle.rounds.port import InstanceSchedulePort


class TickActivities:
    """One instance per worker process."""

    def __init__(
        self,
        turns: InstanceSchedulePort,
        nudge: Callable[[], Awaitable[None]],
        checks: Callable[[], tuple[str, ...]] = lambda: (),
        topics: Callable[[], bool] = lambda: False,
        binlogs: Callable[[], tuple[str, ...]] = lambda: (),
    ) -> None:
        """Ask nobody yet.

        Args:
            turns: whose turn is when.
            nudge: lets the schedule tick now, unless it is paused.
            checks: instances whose check is due.
            topics: whether topics are due to be purged.
            binlogs: instances whose binlogs are due to be looked at.
        """
        self._turns = turns
        self._checks = checks
        self._topics = topics
        self._binlogs = binlogs
        self._nudge = nudge

    @activity.defn
    def due_instances(self) -> DueInstances:
        """Return the instances whose rounds should start now, and how many may."""
        with refusals():
            more = {"checks": self._checks(), "topics": self._topics(), "binlogs": self._binlogs()}
            return self._turns.due().model_copy(update=more)

    @activity.defn
    async def nudge(self) -> None:
        """Let the schedule tick now, unless an operator has paused it."""
        await self._nudge()
