"""Wait until something holds: with one patience for all tests, which a slow machine may multiply."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_SECONDS = 120.0 * float(os.environ.get("TESTS_PATIENCE", "1"))
POLL_SECONDS = 0.05


def eventually(what: str, holds: Callable[[], T]) -> T:
    """Return the first true value of ``holds``; fail with what it last returned when patience ends."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (seen := holds()):
        assert time.monotonic() < until, f"{what}: not within {PATIENCE_SECONDS:.0f} s; last seen: {seen!r}"
        time.sleep(POLL_SECONDS)
    return seen


async def eventually_async(what: str, holds: Callable[[], Awaitable[T]]) -> T:
    """Return the first true value that ``holds`` resolves to; fail as ``eventually`` does."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not (seen := await holds()):
        assert time.monotonic() < until, f"{what}: not within {PATIENCE_SECONDS:.0f} s; last seen: {seen!r}"
        await asyncio.sleep(POLL_SECONDS)
    return seen
