"""What both clients do to send a request: connect, repeat it while that may help, and send several in a row."""

import os
from abc import ABC, abstractmethod
from typing import Any, TypeVar

import httpx
from tenacity import RetryCallState, retry_if_exception, stop_after_delay, wait_exponential_jitter

from sexton.client.api_call import ApiCall, Steps, Unreachable
from sexton.kernel.errors import BadInput

T = TypeVar("T")
TIMEOUT_SECONDS = 30.0
PATIENCE_SECONDS = 30.0
TEMPORARY_STATUSES = frozenset({408, 502, 503, 504})
LONGEST_WAIT_SECONDS = 5.0
_EXPONENTIAL_WAIT = wait_exponential_jitter(multiplier=0.2, max=LONGEST_WAIT_SECONDS)


def connection_options(url: str | None, token: str | None, timeout_seconds: float) -> dict[str, Any]:
    """Return the arguments of ``httpx.Client`` and ``httpx.AsyncClient``.

    Raises:
        BadInput: neither the arguments nor the environment has the URL and the token.
    """
    url = url or os.environ.get("SEXTON_API_URL")
    token = token or os.environ.get("SEXTON_TOKEN")
    if not url or not token:
        raise BadInput("a client needs url and token; or set SEXTON_API_URL and SEXTON_TOKEN")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", "User-Agent": "sexton-client"}
    return {"base_url": url, "headers": headers, "timeout": timeout_seconds}


def attempt_options(call: ApiCall[Any], patience_seconds: float) -> dict[str, Any]:
    """Return the arguments of ``tenacity.Retrying`` and ``AsyncRetrying`` for one request."""
    return {
        "retry": retry_if_exception(lambda error: may_repeat(call, error)),
        "wait": wait,
        "stop": stop_after_delay(patience_seconds),
        "reraise": True,
    }


def request_options(call: ApiCall[Any], timeout_seconds: float | None) -> dict[str, Any]:
    """Return the arguments of ``httpx.Client.request`` and ``AsyncClient.request`` for one attempt."""
    timeout = call.timeout_seconds if timeout_seconds is None else timeout_seconds
    return {
        "method": call.method,
        "url": call.path,
        "content": call.content(),
        "params": call.query,
        "timeout": httpx.USE_CLIENT_DEFAULT if timeout is None else timeout,
    }


def final_answer(answer: httpx.Response) -> httpx.Response:
    """Return the answer; raise ``httpx.HTTPStatusError`` if a later one may differ."""
    return answer.raise_for_status() if answer.status_code in TEMPORARY_STATUSES else answer


def may_repeat(call: ApiCall[Any], error: BaseException) -> bool:
    """Return whether the request may be sent again after this error."""
    # A request whose connection failed never reached the server.
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) or (
        call.repeatable and isinstance(error, httpx.TransportError | httpx.HTTPStatusError)
    )


def wait(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: what the server asks for, else longer each time."""
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.response.headers.get("retry-after", "") if isinstance(error, httpx.HTTPStatusError) else ""
    return min(float(retry_after), LONGEST_WAIT_SECONDS) if retry_after.isdigit() else float(_EXPONENTIAL_WAIT(state))


def last_answer(call: ApiCall[Any], error: httpx.HTTPError) -> httpx.Response:
    """Return the last answer to a request that is not sent again; ``Unreachable``: there was no answer."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response
    raise Unreachable(f"{call.method} {call.path} was not answered: {error}") from error


class SyncSender(ABC):
    """Send requests and return their answers."""

    @abstractmethod
    def send(self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None) -> T:
        """Send one request, repeat it while that may help, and return its answer.

        ``patience_seconds``: how long it is repeated; None: the client's own patience. ``timeout_seconds``: of one
        attempt; None: the request's own, else the client's.
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
