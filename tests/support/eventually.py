"""Wait until something holds: with one patience for all tests, which a slow machine may multiply."""

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

PATIENCE_SECONDS = 120.0 * float(os.environ.get("TESTS_PATIENCE", "1"))
POLL_SECONDS = 0.05


def eventually(what: str, look: Callable[[], T], is_so: Callable[[T], object] = bool) -> T:
    """Return what ``look`` returns once it is so, by default true; fail with what it last returned.

    Args:
        what: names in the failure what never was.
        look: is called again and again.
        is_so: tells of what ``look`` returned whether the wait is over.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    while not is_so(seen := look()):
        _check(what, until, seen)
        time.sleep(POLL_SECONDS)
    return seen


@overload
async def eventually_async(what: str, look: Callable[[], Awaitable[T]], is_so: Callable[[T], object] = bool) -> T: ...


@overload
async def eventually_async(what: str, look: Callable[[], T], is_so: Callable[[T], object] = bool) -> T: ...


async def eventually_async(what: str, look: Callable[[], Any], is_so: Callable[[Any], object] = bool) -> Any:
    """Do the same in an event loop, where ``look`` may be a coroutine function."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        seen = look()
        if inspect.isawaitable(seen):
            seen = await seen
        if is_so(seen):
            return seen
        _check(what, until, seen)
        await asyncio.sleep(POLL_SECONDS)


async def happened(event: threading.Event) -> None:
    """Wait in an event loop until a thread has set an event."""
    await eventually_async("a thread sets the event", event.is_set)


def _check(what: str, until: float, seen: object) -> None:
    assert time.monotonic() < until, f"{what}: not within {PATIENCE_SECONDS:.0f} s; last seen: {seen!r}"
