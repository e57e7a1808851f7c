"""Rounds: the newest ones, one of them, the start of one, and signals to the running one."""

from contextlib import ExitStack
from functools import partial
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from sexton.insight.progress import round_progress
from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.event_stream import MEDIA_TYPE, SCHEMA, EventStream
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pages import Before, Limit, page
from sexton.interfaces.api.pools import Pools
from sexton.interfaces.operator_service import OperatorService
from sexton.marks.sql.leases import renewed_at
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.protocol.operating import RoundDetails, RoundPage, Signal, Signalled
from sexton.protocol.plans import StartedRound
from sexton.recycle.audit import parquet
from sexton.recycle.audit.port import AuditEnded
from sexton.recycle.errors import UnknownRound
from sexton.recycle.rounds.model import RecycleRequest
from sexton.recycle.rounds.row import RoundRow
from sexton.recycle.rounds.sql.store import JOB
from sexton.runtime.temporal.rounds import ROUNDS

routes = APIRouter(prefix="/v1/instances/{instance}/rounds", route_class=GuardedRoute)
PARQUET = "application/vnd.apache.parquet"
FILE = {"schema": {"type": "string", "format": "binary"}}
CHUNK_BYTES = 256 << 10
Number = Annotated[int, Path(ge=1, le=2**63 - 1)]


@routes.get("")
def rounds(
    instance: str, service: Service, caller: CurrentCaller, after: Before = None, limit: Limit = 20
) -> RoundPage:
    """Return rounds with their reports, the newest first."""
    caller.require(Grant.READ, instance)
    service.stores.registry.instance(instance)
    shown, following = page(service.stores.reports.rounds(instance, limit + 1, before=after), limit)
    return RoundPage(rounds=shown, next=following)


@routes.get("/{round}")
def show(instance: str, round: Number, service: Service, caller: CurrentCaller) -> RoundDetails:
    """Return the report of one round, or how far it is."""
    caller.require(Grant.READ, instance)
    return _details(service, instance, round)


@routes.get("/{round}/events", response_class=StreamingResponse, responses={200: {"content": {MEDIA_TYPE: SCHEMA}}})
async def events(
    instance: str, round: Number, request: Request, service: Service, caller: CurrentCaller
) -> EventStream:
    """Return the round as server-sent events: ``progress`` every two seconds, and ``ended`` with its report.

    The data of each is what ``GET …/rounds/{round}`` returns. A stream is closed after five minutes: connect again.
    """
    caller.require(Grant.READ, instance)
    pools: Pools = request.app.state.pools

    async def next_event() -> tuple[str, str]:
        details = await pools.streams.run(_details, service, instance, round)
        return "ended" if details.round.report else "progress", details.model_dump_json(by_alias=True)

    return EventStream(next_event, await next_event(), request.app.state.is_stopping)


@routes.get("/{round}/deletions", response_class=StreamingResponse, responses={200: {"content": {PARQUET: FILE}}})
async def deletions(
    instance: str, round: Number, request: Request, service: Service, caller: CurrentCaller
) -> StreamingResponse:
    """Return every object that a round tried to delete, as a Parquet file: one row for each outcome of each object.

    It contains the objects of finished marks. Nothing is returned if part of the log of deletions cannot be read.
    """
    caller.require(Grant.READ, instance)
    pools: Pools = request.app.state.pools
    with ExitStack() as held:  # until the answer is sent
        file = held.enter_context(TemporaryFile())  # the answer closes it
        await pools.downloads.run(_write_deletions, service, instance, round, file)
        return _Download(file, f"deletions-of-round-{round}.parquet", held.pop_all())


@routes.post("", status_code=202)
def start(instance: str, request: Request, service: Service, caller: CurrentCaller) -> StartedRound:
    """Start one round now, with a plan of its own; do not wait."""
    with caller.recorded(Deed("round run", instance, Grant.OPERATE)):
        service.stores.registry.instance(instance)
        order = RecycleRequest(instance=instance, requested_by=caller.name)
        run = request.app.state.starter.start_round(order)
    return StartedRound(instance=instance, workflow=run.workflow, run=run.run)


@routes.post("/running/{signal}", status_code=202)
def signal(
    instance: str,
    signal: Signal,
    request: Request,
    service: Service,
    caller: CurrentCaller,
) -> Signalled:
    """Signal the running round.

    ``cancel`` ends it after its page, ``pause`` pauses it then, ``resume`` continues it, and ``retry`` ends a backoff.
    """
    with caller.recorded(Deed(f"round {signal}", instance, Grant.OPERATE), keeps=signal in ("cancel", "pause")):
        service.stores.registry.instance(instance)
        workers = request.app.state.starter.signal(ROUNDS, instance, signal)
    return Signalled(instance=instance, signal=signal, workers=workers)


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


def _details(service: OperatorService, instance: str, round_: int) -> RoundDetails:
    row = _of_instance(service, instance, round_)
    if row.report is not None:
        return RoundDetails(round=row)
    with service.db.read() as c:
        worked_at = renewed_at(service.db, c, instance, JOB)
    return RoundDetails(round=row, progress=round_progress(service.db, round_), worked_at=worked_at)


def _write_deletions(service: OperatorService, instance: str, round_: int, file: IO[bytes]) -> None:
    row = _of_instance(service, instance, round_)
    rows = parquet.write(service.stores.audit.rows(round_), file)
    if not rows and row.report is not None and row.report.deleted:
        raise AuditEnded(f"the log of deletions has no object of round {round_} any longer, which deleted some")


def _of_instance(service: OperatorService, instance: str, round_: int) -> RoundRow:
    unknown = UnknownRound(f"instance {instance} has no round {round_}")
    try:
        row = service.stores.reports.round(round_)
    except UnknownRound:
        raise unknown from None  # the same as for a round of another instance
    if row.instance != instance:
        raise unknown
    return row
