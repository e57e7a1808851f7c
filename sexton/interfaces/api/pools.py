"""Keep some places for requests that stop deletions or keep objects, and threads that no other work can occupy.

A proxy decides how many clients come through; see `docs/security.md`. SQLAlchemy opens at most 30 connections. All
pools together, with those that verify tokens, log refusals and answer the console's polls, use no more, so that a stop
finds one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

import anyio.to_thread

P = ParamSpec("P")
T = TypeVar("T")
_RESERVED, _LONG = "sexton_reserved", "sexton_long"


class Threads:
    """A few threads for one purpose. No other call can occupy them."""

    def __init__(self, number: int) -> None:
        self._limiter = anyio.CapacityLimiter(number)

    async def run(self, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        """Run a function in one of the threads."""
        return await anyio.to_thread.run_sync(partial(function, *arguments, **named), limiter=self._limiter)


class Pools:
    """The places and threads of one application."""

    def __init__(self) -> None:
        self._ordinary, self._reserved = asyncio.Semaphore(8), asyncio.Semaphore(6)
        self._long = asyncio.Semaphore(4)
        self.large_bodies = asyncio.Semaphore(8)
        self.polls, self.downloads, self.refusals = Threads(2), Threads(2), Threads(2)
        self.streams, self.health, self.parser = Threads(1), Threads(1), Threads(1)

    @asynccontextmanager
    async def place(self, endpoint: Callable[..., Any]) -> AsyncIterator[None]:
        """Hold what a request needs while it runs. A coroutine is a long poll: it needs no thread while it waits."""
        if is_reserved(endpoint):
            async with self._reserved:
                yield
        elif iscoroutinefunction(endpoint):
            yield
        else:
            async with self._long if getattr(endpoint, _LONG, False) else nullcontext(), self._ordinary:
                yield


def reserved(endpoint: Callable[P, T]) -> Callable[P, T]:
    """Mark an endpoint whose requests have places of their own: they stop deletions, keep objects, or end a wait."""
    setattr(endpoint, _RESERVED, True)
    return endpoint


def long(endpoint: Callable[P, T]) -> Callable[P, T]:
    """Mark an endpoint that may take long: at most four of its requests run, so that they leave places for others."""
    setattr(endpoint, _LONG, True)
    return endpoint


def is_reserved(endpoint: Callable[..., Any]) -> bool:
    """Return whether an endpoint was marked by ``reserved``."""
    return getattr(endpoint, _RESERVED, False)
