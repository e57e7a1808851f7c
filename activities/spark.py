"""Find a free Spark worker, as an activity."""

from collections.abc import Callable

from temporalio import activity

from activities.refusals import refusals


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
