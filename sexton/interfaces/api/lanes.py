"""Limit how many requests run at once, so that stops, renewals and releases find a free thread and connection.

Requests that keep objects safe have a lane of their own, which no other request can fill. No single token fills a lane.
Stops have one that no job and no node can enter. SQLAlchemy opens at most 30 connections, and anyio starts at most 40
threads: all lanes together leave some of both.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

import anyio.to_thread

from sexton.interfaces.api.errors import TooManyRequests
from sexton.interfaces.api.large_bodies import LargeBodies
from sexton.operators.access import policy
from sexton.operators.access.model import CallerIdentity, Grant

P = ParamSpec("P")
T = TypeVar("T")
_RESERVED = "sexton_reserved"
_STOPS = "sexton_stops"


class _Share:
    """The requests of one token in a lane."""

    def __init__(self, places: int) -> None:
        self.requests, self.places = 0, asyncio.Semaphore(places)


class RequestLane:
    """Places for requests of one sort. A request waits for a place; one token cannot wait in all of the queue.

    ``at_once``: how many of the places one token can have; by default all of them. ``waits``: else a request is
    refused while there is no place.
    """

    def __init__(self, places: int, per_token: int, at_once: int | None = None, *, waits: bool = True) -> None:
        self._places, self._per_token = asyncio.Semaphore(places), per_token
        self._at_once, self._waits = places if at_once is None else at_once, waits
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def place(self, sender: str) -> AsyncIterator[None]:
        """Wait for a place and hold it. Raise ``TooManyRequests`` if the sender has its share already."""
        if not self._waits and self._places.locked():
            raise TooManyRequests("all places for such requests are taken; try again later")
        share = self._shares.setdefault(sender, _Share(self._at_once))
        if share.requests >= self._per_token:
            raise TooManyRequests(f"{self._per_token} requests of this token are under way; wait for an answer")
        share.requests += 1
        try:
            async with share.places, self._places:
                yield
        finally:
            share.requests -= 1
            if not share.requests:
                del self._shares[sender]


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
        self.ordinary = RequestLane(places=8, per_token=16, at_once=2)
        self.reserved = RequestLane(places=8, per_token=16, at_once=2)
        self.stops = RequestLane(places=4, per_token=16, at_once=2)
        self.long_polls = RequestLane(places=256, per_token=16)
        # A token, and an instance, has one of the threads that read journals; the queues are as long as that of polls.
        self.reads_of_token = RequestLane(places=256, per_token=16, at_once=1)
        self.reads_of_journal = RequestLane(places=256, per_token=256, at_once=1)
        self.downloads = RequestLane(places=2, per_token=4, at_once=1)
        self.streams, self.stream_threads = RequestLane(places=32, per_token=4, waits=False), Threads(1)
        self.large_bodies = LargeBodies(places=8, per_token=4)
        self.parser = RequestLane(places=1, per_token=16)
        self.parser_threads = Threads(1)
        self.poll_threads, self.health_threads, self.refusal_threads = Threads(2), Threads(1), Threads(2)
        self.download_threads = Threads(2)

    def of(self, endpoint: Callable[..., Any], caller: CallerIdentity | None) -> RequestLane:
        """Return the lane of a request. A coroutine is a long poll: it needs no thread while it waits."""
        if is_stop(endpoint, caller):
            return self.stops
        if is_reserved(endpoint):
            return self.reserved
        return self.long_polls if iscoroutinefunction(endpoint) else self.ordinary


def reserved(endpoint: Callable[P, T]) -> Callable[P, T]:
    """Mark an endpoint whose requests have the reserved lane: they keep objects, or end what blocks others."""
    setattr(endpoint, _RESERVED, True)
    return endpoint


def stopping(endpoint: Callable[P, T]) -> Callable[P, T]:
    """Mark an endpoint whose requests have the lane of stops, if their tokens may stop anything."""
    setattr(endpoint, _STOPS, True)
    return reserved(endpoint)


def is_stopping(endpoint: Callable[..., Any]) -> bool:
    """Return whether an endpoint was marked by ``stopping``: each of its requests must stop what runs now."""
    return getattr(endpoint, _STOPS, False)


def is_stop(endpoint: Callable[..., Any], caller: CallerIdentity | None) -> bool:
    """Return whether a request has the lane of stops: one of a job, a node or an owner will be refused."""
    may_stop = caller is not None and any(
        policy.permits(scope, Grant.OPERATE, scope.instance) for scope in caller.scopes
    )
    return may_stop and getattr(endpoint, _STOPS, False)


def is_reserved(endpoint: Callable[..., Any]) -> bool:
    """Return whether an endpoint was marked by ``reserved`` or ``stopping``."""
    return getattr(endpoint, _RESERVED, False)
