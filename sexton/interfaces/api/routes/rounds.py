"""What a round does while it runs, as events, and every object that it tried to delete, as a file."""

import time
from asyncio import sleep
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from os import SEEK_END
from tempfile import TemporaryFile
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.background import BackgroundTask
from starlette.responses import StreamingResponse

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import Pools
from sexton.interfaces.api.problems import problem
from sexton.operations.fields import MAX_NUMBER
from sexton.operations.registry import Call, operation_named
from sexton.operations.rounds import RoundDetails
from sexton.recycle.audit import writer
from sexton.recycle.audit.model import AuditEnded

routes = APIRouter(prefix="/v1/rounds", route_class=GuardedRoute)
PARQUET = "application/vnd.apache.parquet"
FILE = {"schema": {"type": "string", "format": "binary"}}
CHUNK_BYTES = 256 << 10
MEDIA_TYPE = "text/event-stream"
UNAVAILABLE = 503
PERIOD_SECONDS, SLICES = 2.0, 8
LONGEST_SECONDS = 300.0
"""A browser connects again after this time, so that a token which was revoked meanwhile is refused then."""
SCHEMA = {"schema": {"type": "string", "description": "events, each with one JSON object as its data"}}

NextEvent = Callable[[], Awaitable[tuple[str, str]]]
"""Returns the name of an event and its data, one line of JSON. The event ``ended`` is the last one."""
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER)]


@routes.get("/{round}/events", response_class=StreamingResponse, responses={200: {"content": {MEDIA_TYPE: SCHEMA}}})
async def events(round: Number, request: Request, service: Service, caller: CurrentCaller) -> StreamingResponse:
    """Return the round as server-sent events: ``progress`` every two seconds, and ``ended`` with its report.

    The data of each is what ``GET …/rounds/{round}`` returns. A stream is closed after five minutes: connect again.
    """
    pools: Pools = request.app.state.pools

    async def next_event() -> tuple[str, str]:
        details = await pools.streams.run(details_of, Call(service, caller), round)
        return "ended" if details.round.report else "progress", details.model_dump_json(by_alias=True)

    events = stream(next_event, await next_event(), request.app.state.is_stopping)
    return StreamingResponse(events, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


@routes.get("/{round}/deletions", response_class=StreamingResponse, responses={200: {"content": {PARQUET: FILE}}})
async def deletions(round: Number, request: Request, service: Service, caller: CurrentCaller) -> StreamingResponse:
    """Return every object that a round tried to delete, as a Parquet file: one row for each outcome of each object.

    It contains the objects of finished marks. Nothing is returned if part of the log of deletions cannot be read.
    """
    pools: Pools = request.app.state.pools
    with ExitStack() as held:
        file = held.enter_context(TemporaryFile())
        details = await pools.downloads.run(details_of, Call(service, caller), round)

        def write() -> int:
            """Write the file, and return how many bytes it has."""
            row = details.round
            rows = writer.write(service.stores.audit.rows(row.id), file)
            if not rows and row.report is not None and row.report.deleted:
                raise AuditEnded(f"the log of deletions has no object of round {row.id} any longer, which deleted some")
            length = file.seek(0, SEEK_END)
            file.seek(0)
            return length

        length = await pools.downloads.run(write)
        name = f'attachment; filename="deletions-of-round-{round}.parquet"'
        headers = {"Content-Disposition": name, "Content-Length": str(length)}
        pieces = iter(partial(file.read, CHUNK_BYTES), b"")
        closing = BackgroundTask(held.pop_all().close)  # after the answer was sent, or its client has gone
        return StreamingResponse(pieces, media_type=PARQUET, headers=headers, background=closing)


async def stream(next_event: NextEvent, event: tuple[str, str], is_stopping: Callable[[], bool]) -> AsyncIterator[str]:
    """Yield server-sent events, the first one and those that follow, while the process goes on."""
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


def details_of(call: Call, round_: int) -> RoundDetails:
    """Return one round, if the caller may see it."""
    details: RoundDetails = operation_named("round show", "rounds").run(call, {"round": round_})
    return details
