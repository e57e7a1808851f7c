"""Find Spark workers, as an activity."""

from collections.abc import Awaitable, Callable

from temporalio import activity

from activities.refusals import refusals


class SparkActivities:
    """One instance per control worker."""

    def __init__(self, queue: Callable[[], Awaitable[str]]) -> None:
        """``queue`` returns the task queue that Spark workers poll; empty where none polls."""
        self._queue = queue

    @activity.defn
    async def find_spark(self) -> str:
        """Return the task queue that Spark workers poll; empty where none polls."""
        with refusals():
            return await self._queue()
