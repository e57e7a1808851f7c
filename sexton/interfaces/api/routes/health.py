"""Health and metrics."""

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sexton.database.engine import AWAY, Database
from sexton.interfaces.api.caller import CurrentCaller
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.lanes import Threads
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.protocol.status import HealthBody

routes = APIRouter()
guarded = APIRouter(route_class=GuardedRoute)


class HealthCheck:
    """Asks the database whether it answers, once for all requests that wait at the same time: they need no token."""

    def __init__(self, db: Database, threads: Threads) -> None:
        self._db, self._threads = db, threads
        self._check: asyncio.Task[bool] | None = None

    async def is_healthy(self) -> bool:
        """Return whether the database answers."""
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self._threads.run(self._answers))
        return await asyncio.shield(self._check)

    def _answers(self) -> bool:
        try:
            with self._db.read() as c:
                self._db.now(c)
        except AWAY:
            return False
        return True


@routes.get("/healthz")
async def health(request: Request, response: Response) -> HealthBody:
    """Return whether the API and its database answer. Needs no token."""
    if await request.app.state.health.is_healthy():
        return HealthBody(status="ok")
    response.status_code = 503
    return HealthBody(status="unavailable")


@guarded.get("/metrics")
def metrics(request: Request, caller: CurrentCaller) -> Response:
    """Return the metrics of every instance for Prometheus."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)
