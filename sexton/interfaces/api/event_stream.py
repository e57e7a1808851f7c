"""Server-sent events: a message every two seconds, until the last one or for some minutes."""

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.responses import StreamingResponse

from sexton.interfaces.api.problems import problem

MEDIA_TYPE = "text/event-stream"
UNAVAILABLE = 503
PERIOD_SECONDS, SLICES = 2.0, 8
LONGEST_SECONDS = 300.0
"""A browser connects again after this time, so that a token which was revoked meanwhile is refused then."""
SCHEMA = {"schema": {"type": "string", "description": "events, each with one JSON object as its data"}}

NextEvent = Callable[[], Awaitable[tuple[str, str]]]
"""Returns the name of an event and its data, one line of JSON. The event ``ended`` is the last one."""


class EventStream(StreamingResponse):
    """The events of something that runs."""

    def __init__(self, next_event: NextEvent, first: tuple[str, str], is_stopping: Callable[[], bool]) -> None:
        """Prepare the stream.

        Args:
            next_event: returns what follows.
            first: the first event.
            is_stopping: whether the process ends; then the stream ends, too.
        """
        events = _events(next_event, first, is_stopping)
        super().__init__(events, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


async def _events(next_event: NextEvent, event: tuple[str, str], is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
    until = time.monotonic() + LONGEST_SECONDS
    while True:
        name, data = event
        yield f"event: {name}\ndata: {data}\n\n"
        if name == "ended" or time.monotonic() >= until:
            return
        for _ in range(SLICES):
            await sleep(PERIOD_SECONDS / SLICES)
            if is_stopping():
                return
        try:
            event = await next_event()
        except Exception as e:
            if problem(e).status != UNAVAILABLE:
                raise
            return  # the client connects again, and the refusal says why
