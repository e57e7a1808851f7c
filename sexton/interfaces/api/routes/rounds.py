"""What a round does while it runs, as events, and every object that it tried to delete, as a file."""

from contextlib import ExitStack
from functools import partial
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sexton.deployment import Deployment
from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.event_stream import MEDIA_TYPE, SCHEMA, EventStream
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import Pools
from sexton.operations.fields import MAX_NUMBER
from sexton.operations.registry import Call, operation_named
from sexton.operations.rounds import RoundDetails
from sexton.recycle.audit import parquet
from sexton.recycle.audit.model import AuditEnded

routes = APIRouter(prefix="/v1/rounds", route_class=GuardedRoute)
PARQUET = "application/vnd.apache.parquet"
FILE = {"schema": {"type": "string", "format": "binary"}}
CHUNK_BYTES = 256 << 10
Number = Annotated[int, Path(ge=1, le=MAX_NUMBER)]


@routes.get("/{round}/events", response_class=StreamingResponse, responses={200: {"content": {MEDIA_TYPE: SCHEMA}}})
async def events(round: Number, request: Request, service: Service, caller: CurrentCaller) -> EventStream:
    """Return the round as server-sent events: ``progress`` every two seconds, and ``ended`` with its report.

    The data of each is what ``GET …/rounds/{round}`` returns. A stream is closed after five minutes: connect again.
    """
    pools: Pools = request.app.state.pools

    async def next_event() -> tuple[str, str]:
        details = await pools.streams.run(details_of, Call(service, caller), round)
        return "ended" if details.round.report else "progress", details.model_dump_json(by_alias=True)

    return EventStream(next_event, await next_event(), request.app.state.is_stopping)


@routes.get("/{round}/deletions", response_class=StreamingResponse, responses={200: {"content": {PARQUET: FILE}}})
async def deletions(round: Number, request: Request, service: Service, caller: CurrentCaller) -> StreamingResponse:
    """Return every object that a round tried to delete, as a Parquet file: one row for each outcome of each object.

    It contains the objects of finished marks. Nothing is returned if part of the log of deletions cannot be read.
    """
    pools: Pools = request.app.state.pools
    with ExitStack() as held:  # until the answer is sent
        file = held.enter_context(TemporaryFile())  # the answer closes it
        details = await pools.downloads.run(details_of, Call(service, caller), round)
        await pools.downloads.run(_write_deletions, service, details, file)
        return _Download(file, f"deletions-of-round-{round}.parquet", held.pop_all())


class _Download(StreamingResponse):
    """A file. What it holds is released when it was sent, or its client has gone."""

    def __init__(self, file: IO[bytes], name: str, held: ExitStack) -> None:
        length = file.seek(0, SEEK_END)
        file.seek(0)
        headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Length": str(length)}
        super().__init__(iter(partial(file.read, CHUNK_BYTES), b""), media_type=PARQUET, headers=headers)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)


def details_of(call: Call, round_: int) -> RoundDetails:
    """Return one round, if the caller may see it."""
    details: RoundDetails = operation_named("round show", "rounds").run(call, {"round": round_})
    return details


def _write_deletions(service: Deployment, details: RoundDetails, file: IO[bytes]) -> None:
    row = details.round
    rows = parquet.write(service.stores.audit.rows(row.id), file)
    if not rows and row.report is not None and row.report.deleted:
        raise AuditEnded(f"the log of deletions has no object of round {row.id} any longer, which deleted some")
