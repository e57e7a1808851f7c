"""Compose the application over one database. Its OpenAPI description, ``/v1/openapi.json``, needs a token."""

import importlib.metadata
import json

from fastapi import FastAPI, Response
from prometheus_client import CollectorRegistry, ProcessCollector
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from config.settings import Settings
from sexton.database.engine import Database
from sexton.insight.metrics.collector import FigureCollector
from sexton.interfaces.api import problems
from sexton.interfaces.api.authentication import AuthenticationMiddleware
from sexton.interfaces.api.lanes import Lanes
from sexton.interfaces.api.routes import (
    binlogs,
    checks,
    control,
    health,
    journal,
    plans,
    protections,
    replicas,
    tokens,
    wal,
)
from sexton.interfaces.operator_service import OperatorService
from sexton.protocol.body import MAX_BODY_BYTES
from sexton.protocol.problems import ProblemDocument
from sexton.runtime.temporal.starter import RoundStarter


def create(settings: Settings, db: Database) -> FastAPI:
    """Return the application. The caller must have checked the database's schema."""
    refusal = {"model": ProblemDocument, "description": "what was refused and why, and what to do"}
    app = FastAPI(
        title="Sexton",
        version=importlib.metadata.version("sexton"),
        openapi_url=None,  # FastAPI would write the whole document again for every request
        docs_url=None,  # the page loads scripts from another site
        redoc_url=None,
        max_body_size=MAX_BODY_BYTES,
        responses={"4XX": refusal, "5XX": refusal},
    )
    app.state.service = service = OperatorService(settings, db)
    app.state.logins = service.stores.logins
    app.state.rounds = RoundStarter(settings)
    app.state.lanes = lanes = Lanes()
    app.state.health = health.HealthCheck(db, lanes.health_threads)
    app.state.metrics = registry = CollectorRegistry()
    read = service.stores.figures(settings.policy(), settings.intervals()).read
    ProcessCollector(registry=registry)
    registry.register(FigureCollector(read, {}, stats=False, worker=False))
    for part in (health, tokens, control, plans, protections, checks, wal, binlogs, replicas, journal):
        app.include_router(part.routes)
    app.include_router(health.guarded)
    description = json.dumps(app.openapi(), separators=(",", ":"))

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(description, media_type="application/json")

    problems.install(app)
    app.add_middleware(AuthenticationMiddleware, tokens=service.stores.tokens, lanes=lanes)
    if settings.api.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.api.trusted_proxies)
    return app
