"""Find what is due, how far work is and a free Spark worker, and trigger the schedule, as activities."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from temporalio import activity

from activities.refusals import refusals
from sexton.recycle.rounds.model import DueInstances

if TYPE_CHECKING:
    from sexton.recycle.rounds.sql.reports import RoundSchedule


class TickActivities:
    """One instance per worker process."""

    def __init__(
        self,
        schedule: "RoundSchedule",
        nudge: Callable[[], Awaitable[None]],
        checks: Callable[[], tuple[str, ...]] = lambda: (),
        topics: Callable[[], bool] = lambda: False,
        binlogs: Callable[[], tuple[str, ...]] = lambda: (),
        progress: Callable[[str, int], list[str]] = lambda _work, _number: [],
    ) -> None:
        """Store the ports.

        Args:
            schedule: when each instance has its next round.
            nudge: triggers Temporal's schedule now, unless it is paused.
            checks: returns the instances whose check is due.
            topics: returns whether any topic is due for a purge.
            binlogs: returns the instances whose binlog GC is due.
            progress: returns how far a round or a check is, by its number, as lines for people.
        """
        self._schedule = schedule
        self._checks = checks
        self._topics = topics
        self._binlogs = binlogs
        self._nudge = nudge
        self._progress = progress

    @activity.defn
    def due_instances(self) -> DueInstances:
        """Return the instances with due rounds, the free slots, and the checks, topics and binlogs that are due."""
        with refusals():
            others = {"checks": self._checks(), "topics": self._topics(), "binlogs": self._binlogs()}
            return self._schedule.due().model_copy(update=others)

    @activity.defn(no_thread_cancel_exception=True)
    def read_progress(self, work: tuple[str, int]) -> list[str]:
        """Return how far a round or a check is, by its number, as lines for people."""
        with refusals():
            return self._progress(*work)

    @activity.defn
    async def nudge(self) -> None:
        """Trigger the schedule now, unless an operator has paused it."""
        await self._nudge()


class SparkActivities:
    """One instance per control worker."""

    def __init__(self, queue: str, count_slots: Callable[[], tuple[int, int]]) -> None:
        """``queue``: of Spark workers; ``count_slots`` returns how many slots they have, and how many are free."""
        self._queue = queue
        self._count_slots = count_slots

    @activity.defn(no_thread_cancel_exception=True)
    def find_spark(self) -> str:
        """Return the task queue of Spark workers; empty where none runs or all are busy."""
        with refusals():
            _, free = self._count_slots()
            return self._queue if free > 0 else ""
