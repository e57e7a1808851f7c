"""The journal: what followers replay, in its order; whoever waits is answered when there is something."""

import asyncio
import time
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool

from sexton.interfaces.api.caller import Asker, AtDesk, Instance
from sexton.operators.access.model import Grant
from sexton.replication.journal.model import JournalPage, Snapshot

routes = APIRouter(prefix="/v1")
LOOK_SECONDS = 0.5
After = Annotated[int, Query(ge=0, le=2**62, description="the last entry that was applied")]
Wait = Annotated[float, Query(ge=0, le=30, description="seconds, where there is nothing yet")]
Follower = Annotated[str, Query(max_length=128, description="for whom entries are kept that it has not applied")]


@routes.get("/journal")
async def read(
    request: Request,
    at: AtDesk,
    asker: Asker,
    instance: Instance,
    after: After = 0,
    wait: Wait = 0,
    follower: Follower = "",
) -> JournalPage:
    """Return entries, a hundred at most, behind one; refused where they are gone."""
    if follower:
        asker.needs(Grant.OPERATE, node=follower)
    else:
        asker.needs(Grant.READ)
    until = time.monotonic() + wait
    while True:
        page = await run_in_threadpool(at.binlogs.journal.read, instance, after, follower)
        if page.entries or time.monotonic() >= until:
            return page
        while time.monotonic() < until and not await request.is_disconnected():
            await asyncio.sleep(LOOK_SECONDS)
            if await run_in_threadpool(at.binlogs.journal.head, instance) > after:
                break
        else:
            return page


@routes.get("/journal/snapshot")
def snapshot(at: AtDesk, asker: Asker, instance: Instance, follower: Follower = "") -> Snapshot:
    """Return what a follower begins with that has missed entries."""
    asker.needs(Grant.READ, node=follower or None)
    return at.binlogs.replicas.snapshot(instance)
