"""Health and metrics."""

import asyncio
from typing import Literal

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sexton.insight.health import Health, ProbeAnswer
from sexton.interfaces.api.caller import CurrentCaller
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import Threads
from sexton.kernel.message import Message
from sexton.operators.access.model import EVERY_INSTANCE, Grant

routes = APIRouter()
guarded = APIRouter(route_class=GuardedRoute)


class HealthBody(Message):
    """Whether the process is ready; ``failed``: the names of the checks that failed."""

    status: Literal["ok", "unavailable"]
    failed: tuple[str, ...] = ()


class HealthCheck:
    """Asks whether the API is ready, once for all requests that wait at the same time: they need no token."""

    def __init__(self, health: Health, threads: Threads) -> None:
        self._health, self._threads = health, threads
        self._check: asyncio.Task[ProbeAnswer] | None = None

    async def readyz(self) -> ProbeAnswer:
        """Return whether the database answers, with the right schema."""
        if self._check is None or self._check.done():
            self._check = asyncio.create_task(self._threads.run(self._health.readyz))
        return await asyncio.shield(self._check)


@routes.get("/healthz", response_model_exclude_defaults=True, name="healthz")
@routes.get("/readyz", response_model_exclude_defaults=True)
async def ready(request: Request, response: Response) -> HealthBody:
    """Return whether the API and its database answer. Needs no token."""
    answer: ProbeAnswer = await request.app.state.health.readyz()
    if not answer.failed:
        return HealthBody(status="ok")
    response.status_code = 503
    return HealthBody(status="unavailable", failed=answer.failed)


@routes.get("/livez", response_model_exclude_defaults=True)
async def live() -> HealthBody:
    """Return that the API answers at all, whatever the database does. Needs no token."""
    return HealthBody(status="ok")


@guarded.get("/metrics")
def metrics(request: Request, caller: CurrentCaller) -> Response:
    """Return the metrics of every instance for Prometheus."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)
