"""Health and metrics."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sexton.database.engine import AWAY
from sexton.interfaces.api.caller import ReadingCaller, Service
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
def metrics(request: Request, _: ReadingCaller) -> Response:
    """Return the metrics of every instance for Prometheus."""
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)
