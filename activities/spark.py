"""Who does what is heavy."""

from collections.abc import Awaitable, Callable

from temporalio import activity

from activities.refusals import refusals


class SparkActivities:
    """One instance per control worker."""

    def __init__(self, queue: Callable[[], Awaitable[str]]) -> None:
        """``queue`` tells where Spark's workers poll; empty where none does now."""
        self._queue = queue

    @activity.defn
    async def find_spark(self) -> str:
        """Return where Spark's workers poll; empty where none does."""
        with refusals():
            return await self._queue()
