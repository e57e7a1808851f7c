"""Wait until something holds: with one patience for all tests, which a slow machine may multiply."""

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NoReturn, TypeVar, overload

T = TypeVar("T")

PATIENCE_SECONDS = 240.0 * float(os.environ.get("TESTS_PATIENCE", "1"))
POLL_SECONDS = 0.05
"""Between two looks; between the first ones it is less."""


def eventually(what: str, look: Callable[[], T], is_so: Callable[[T], object] = bool) -> T:
    """Return what ``look`` returns once it is so, by default true; fail with what it last returned.

    Args:
        what: names in the failure what never was.
        look: is called again and again.
        is_so: tells of what ``look`` returned whether the wait is over.
    """
    pauses = _pauses()
    while not is_so(seen := look()):
        time.sleep(next(pauses, 0.0) or _fail(what, seen))
    return seen


@overload
async def eventually_async(what: str, look: Callable[[], Awaitable[T]], is_so: Callable[[T], object] = bool) -> T: ...


@overload
async def eventually_async(what: str, look: Callable[[], T], is_so: Callable[[T], object] = bool) -> T: ...


async def eventually_async(what: str, look: Callable[[], Any], is_so: Callable[[Any], object] = bool) -> Any:
    """Do the same in an event loop, where ``look`` may be a coroutine function."""
    pauses = _pauses()
    while True:
        seen = look()
        if inspect.isawaitable(seen):
            seen = await seen
        if is_so(seen):
            return seen
        await asyncio.sleep(next(pauses, 0.0) or _fail(what, seen))


async def happened(event: threading.Event) -> None:
    """Wait in an event loop until a thread has set an event."""
    await eventually_async("a thread sets the event", event.is_set)


def _pauses() -> Iterator[float]:
    """Yield the seconds until the next look, until patience ends."""
    until, pause = time.monotonic() + PATIENCE_SECONDS, POLL_SECONDS / 16
    while time.monotonic() < until:
        yield pause
        pause = min(2 * pause, POLL_SECONDS)


def _fail(what: str, seen: object) -> NoReturn:
    raise AssertionError(f"{what}: not within {PATIENCE_SECONDS:.0f} s; last seen: {seen!r}")
