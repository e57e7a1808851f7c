"""The journal that followers replay in order. A long poll is answered as soon as there is an entry."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from sexton.interfaces.api.caller import CurrentCaller, SelectedInstance, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import Pools
from sexton.operations.registry import Deed
from sexton.operators.access.model import Grant
from sexton.replication.journal.model import JournalPage, JournalSnapshot

routes = APIRouter(prefix="/v1", route_class=GuardedRoute)
POLL_SECONDS = 0.5
After = Annotated[int, Query(ge=0, le=2**62, description="the last entry that was applied")]
Wait = Annotated[float, Query(ge=0, le=30, description="seconds to wait if there is no entry yet")]
Follower = Annotated[
    str,
    Query(
        pattern=r"^([A-Za-z0-9][A-Za-z0-9._/-]{0,127})?$",
        description="the name of a node; entries that it has not applied are retained for it",
    ),
]
"""A name that the scope ``node:ID`` can have, so never ``ANY_NODE``."""


@routes.get("/journal", response_model=JournalPage)
async def read(
    request: Request,
    service: Service,
    caller: CurrentCaller,
    instance: SelectedInstance,
    after: After = 0,
    wait: Wait = 0,
    follower: Follower = "",
) -> Response:
    """Return at most 100 entries behind one, about 1 MiB. Refused if they are deleted."""
    pools: Pools = request.app.state.pools
    run, journal = pools.polls.run, service.stores.binlogs.journal

    def permit_follower() -> None:
        """Raise ``Forbidden`` unless the caller may read as a follower: entries it has not applied are retained."""
        with caller.recorded(Deed("binlog follow", instance, Grant.OPERATE, follower, node=follower), routine=True):
            pass

    def read_page() -> tuple[Response, bool]:
        """Return a page as it is sent, written in a thread because it may be large, and whether it has no entries."""
        page = journal.read(instance, after, follower)
        return Response(page.model_dump_json(by_alias=True), media_type="application/json"), not page.entries

    if follower:
        await run(permit_follower)
    else:
        caller.require(Grant.READ, instance)
    deadline = time.monotonic() + wait
    while True:
        answer, is_empty = await run(read_page)
        if not is_empty or time.monotonic() >= deadline:
            return answer
        while time.monotonic() < deadline and not await request.is_disconnected():
            await asyncio.sleep(POLL_SECONDS)
            if await run(journal.head, instance) > after:
                break
        else:
            return answer


@routes.get("/journal/snapshot", response_model=JournalSnapshot)
async def snapshot(
    request: Request, service: Service, caller: CurrentCaller, instance: SelectedInstance, follower: Follower = ""
) -> Response:
    """Return the state with which a follower begins after it has missed entries."""
    caller.require(Grant.READ, instance, node=follower or None)
    pools: Pools = request.app.state.pools
    replicas = service.stores.binlogs.replicas
    # It has every log and unhealthy replica, so few are written at once.
    text = await pools.polls.run(lambda: replicas.snapshot(instance).model_dump_json(by_alias=True))
    return Response(text, media_type="application/json")
