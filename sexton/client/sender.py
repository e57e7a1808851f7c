"""The base of both clients: send one request or several, and make each request value a method."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, overload

from sexton.client.api_call import ApiCall, Steps

P = ParamSpec("P")
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


class ApiMethod(Generic[P, T]):
    """A method that sends the request which a function returns.

    The method has the function's parameters and docstring. It returns ``T`` in a ``SyncSender``, and a coroutine for
    ``T`` in an ``AsyncSender``: each method of the API is declared once for both clients.
    """

    def __init__(self, request: Callable[P, ApiCall[T] | Steps[T]]) -> None:
        self._request = request
        self.__doc__ = request.__doc__

    @overload
    def __get__(self, client: None, owner: type) -> Callable[P, ApiCall[T] | Steps[T]]: ...
    @overload
    def __get__(self, client: SyncSender, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: SyncSender | AsyncSender | None, owner: type) -> Callable[P, Any]:
        """Return the method of one client; for the class, the function that makes the request."""
        if client is None:
            return self._request

        @wraps(self._request)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            request = self._request(*args, **kwargs)
            return client.send(request) if isinstance(request, ApiCall) else client.send_all(request)

        return method
