"""Limit how many requests run at once, so that stops, renewals and releases find a free thread and connection.

Requests that keep objects safe have a lane of their own, which no other request can fill. SQLAlchemy opens at most 15
connections to SQLite and 30 to PostgreSQL, and anyio starts at most 40 threads: the other lanes together leave enough.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, ParamSpec, TypeVar

import anyio.to_thread

from sexton.interfaces.api.errors import TooManyRequests
from sexton.interfaces.api.large_bodies import LargeBodies

P = ParamSpec("P")
T = TypeVar("T")
_RESERVED = "sexton_reserved"


class RequestLane:
    """Places for requests of one sort. A request waits for a place; one token cannot wait in all of the queue."""

    def __init__(self, places: int, per_token: int) -> None:
        self._places, self._per_token = asyncio.Semaphore(places), per_token
        self._requests: Counter[str] = Counter()

    @asynccontextmanager
    async def place(self, sender: str) -> AsyncIterator[None]:
        """Wait for a place and hold it. Raise ``TooManyRequests`` if the sender has its share already."""
        if self._requests[sender] >= self._per_token:
            raise TooManyRequests(f"{self._per_token} requests of this token are under way; wait for an answer")
        self._requests[sender] += 1
        try:
            async with self._places:
                yield
        finally:
            self._requests[sender] -= 1
            if not self._requests[sender]:
                del self._requests[sender]


class Threads:
    """A few threads for one purpose. No other call can occupy them."""

    def __init__(self, number: int) -> None:
        self._limiter = anyio.CapacityLimiter(number)

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function in one of the threads."""
        return await anyio.to_thread.run_sync(partial(function, *arguments, **named), limiter=self._limiter)


class Lanes:
    """The lanes and threads of one application."""

    def __init__(self) -> None:
        self.ordinary = RequestLane(places=8, per_token=16)
        self.reserved = RequestLane(places=8, per_token=16)
        self.long_polls = RequestLane(places=256, per_token=16)
        self.large_bodies = LargeBodies(places=8, per_token=4)
        self.parser = RequestLane(places=1, per_token=16)
        self.parser_threads = Threads(1)
        self.poll_threads, self.health_threads = Threads(2), Threads(1)


def reserved(endpoint: Callable[P, T]) -> Callable[P, T]:
    """Mark an endpoint whose requests have the reserved lane: they keep objects, or end what blocks others."""
    setattr(endpoint, _RESERVED, True)
    return endpoint


def is_reserved(endpoint: Callable[..., Any]) -> bool:
    """Return whether an endpoint was marked by ``reserved``."""
    return getattr(endpoint, _RESERVED, False)
