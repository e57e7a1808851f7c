"""The base of both clients: send one request, or several."""

from abc import ABC, abstractmethod
from typing import TypeVar

from sexton.client.api_call import ApiCall, Steps

T = TypeVar("T")


class SyncSender(ABC):
    """Send requests and return their answers."""

    @abstractmethod
    def send(self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None) -> T:
        """Send one request, repeat it while that may help, and return its answer.

        Args:
            call: the request.
            patience_seconds: how long the request is repeated; None: the client's own patience.
            timeout_seconds: of one attempt; None: the request's own, else the client's.
        """

    def send_all(self, steps: Steps[T]) -> T:
        """Send several requests one after the other, and return their result."""
        answer = None
        while True:
            try:
                call = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = self.send(call)


class AsyncSender(ABC):
    """Send requests and return their answers, in a coroutine."""

    @abstractmethod
    async def send(
        self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> T:
        """Send one request; see ``SyncSender.send``."""

    async def send_all(self, steps: Steps[T]) -> T:
        """Send several requests one after the other, and return their result."""
        answer = None
        while True:
            try:
                call = steps.send(answer)
            except StopIteration as end:
                result: T = end.value
                return result
            answer = await self.send(call)
