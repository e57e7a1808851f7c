"""Count the activities that a worker runs."""

from typing import Any

from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor


class ActivityCounter(Interceptor):
    """Knows how many activities its worker runs now."""

    def __init__(self) -> None:
        self.running = 0

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """Count every activity that begins, until it ends."""
        return _Counting(next, self)


class _Counting(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, counter: ActivityCounter) -> None:
        super().__init__(following)
        self._counter = counter

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        self._counter.running += 1
        try:
            return await super().execute_activity(input)
        finally:
            self._counter.running -= 1
