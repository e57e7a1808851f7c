"""Health and metrics."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sexton.database.engine import AWAY
from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.protocol.status import HealthBody

routes = APIRouter()


@routes.get("/healthz")
def health(service: Service, response: Response) -> HealthBody:
    """Return whether the API and its database answer. Needs no token."""
    try:
        with service.db.read() as c:
            service.db.now(c)
    except AWAY:
        response.status_code = 503
        return HealthBody(status="unavailable")
    return HealthBody(status="ok")


@routes.get("/metrics")
def metrics(request: Request, caller: CurrentCaller) -> Response:
    """Return the metrics of every instance for Prometheus."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)
