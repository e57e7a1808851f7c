"""Is it alive, and its metrics."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from sexton.database.engine import AWAY
from sexton.interfaces.api.caller import AtDesk, Reader
from sexton.protocol.status import HealthBody

routes = APIRouter()


@routes.get("/healthz")
def health(at: AtDesk, response: Response) -> HealthBody:
    """Tell whether the API and its database answer. Needs no token."""
    try:
        with at.db.read() as c:
            at.db.now(c)
    except AWAY:
        response.status_code = 503
        return HealthBody(status="unavailable")
    return HealthBody(status="ok")


@routes.get("/metrics")
def metrics(request: Request, _: Reader) -> Response:
    """The figures of every instance, for Prometheus."""
    return Response(generate_latest(request.app.state.metrics), media_type=CONTENT_TYPE_LATEST)
