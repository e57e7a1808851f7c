"""When a request is sent again: if it was not answered, or if the answer says that the cause is temporary."""

from typing import Any

import httpx
from tenacity import RetryCallState, RetryError, retry_if_exception, stop_after_delay, wait_exponential_jitter

from sexton.client.api_call import ApiCall
from sexton.client.errors import Unreachable

PATIENCE_SECONDS = 30.0
TEMPORARY_STATUSES = frozenset({408, 502, 503, 504})
LONGEST_WAIT_SECONDS = 5.0
_EXPONENTIAL_WAIT = wait_exponential_jitter(multiplier=0.2, max=LONGEST_WAIT_SECONDS)


class TemporaryAnswer(Exception):
    """The server answered that it cannot answer now."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"HTTP {answer.status_code}")
        self.answer = answer


def attempt_options(call: ApiCall[Any], patience_seconds: float) -> dict[str, Any]:
    """Return the arguments of ``tenacity.Retrying`` and ``AsyncRetrying`` for one request."""
    return {
        "retry": retry_if_exception(lambda error: may_repeat(call, error)),
        "wait": wait,
        "stop": stop_after_delay(patience_seconds),
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
    """Return the answer; raise ``TemporaryAnswer`` if a later one may differ."""
    if answer.status_code in TEMPORARY_STATUSES:
        raise TemporaryAnswer(answer)
    return answer


def may_repeat(call: ApiCall[Any], error: BaseException) -> bool:
    """Return whether the request may be sent again after this error."""
    if isinstance(error, TemporaryAnswer):
        return call.repeatable
    # A request whose connection failed never reached the server.
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) or (
        call.repeatable and isinstance(error, httpx.TransportError)
    )


def wait(state: RetryCallState) -> float:
    """Return the seconds until the next attempt: what the server asks for, else longer each time."""
    error = state.outcome.exception() if state.outcome else None
    retry_after = error.answer.headers.get("retry-after", "") if isinstance(error, TemporaryAnswer) else ""
    return min(float(retry_after), LONGEST_WAIT_SECONDS) if retry_after.isdigit() else float(_EXPONENTIAL_WAIT(state))


def last_answer(call: ApiCall[Any], error: RetryError | httpx.HTTPError | TemporaryAnswer) -> httpx.Response:
    """Return the last answer to a request that is not sent again.

    Raises:
        Unreachable: there was no answer.
    """
    cause = error.last_attempt.exception() if isinstance(error, RetryError) else error
    if isinstance(cause, TemporaryAnswer):
        return cause.answer
    raise Unreachable(f"{call.method} {call.path} was not answered: {cause}") from error
