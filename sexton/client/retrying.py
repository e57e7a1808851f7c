"""When a request is sent again: where nothing was answered, or the answer is that it will pass."""

from typing import Any

import httpx
from tenacity import RetryCallState, stop_after_delay, wait_exponential_jitter

from sexton.client.calls import ApiCall

PATIENCE_SECONDS = 30.0
PASSING = frozenset({502, 503, 504})
_WAIT = wait_exponential_jitter(multiplier=0.2, max=5)


class Passing(Exception):
    """An answer that may be another one later."""

    def __init__(self, answer: httpx.Response) -> None:
        super().__init__(f"HTTP {answer.status_code}")
        self.answer = answer


def again(call: ApiCall[Any], error: BaseException) -> bool:
    """Tell whether a request may be sent again."""
    if isinstance(error, Passing):
        return call.repeatable
    # What was never connected was never received.
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) or (
        call.repeatable and isinstance(error, httpx.TransportError)
    )


def wait(state: RetryCallState) -> float:
    """Return for how long to wait: what the server says, else longer each time."""
    error = state.outcome.exception() if state.outcome else None
    told = error.answer.headers.get("retry-after", "") if isinstance(error, Passing) else ""
    return min(float(told), 5.0) if told.isdigit() else float(_WAIT(state))


def stop(patience_seconds: float) -> stop_after_delay:
    """Give up after so long."""
    return stop_after_delay(patience_seconds)
