"""The application, put together over one database. Its description is at ``/v1/openapi.json``, for who has a token."""

import importlib.metadata

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, ProcessCollector

from config.settings import Settings
from sexton.database.engine import Database
from sexton.insight.metrics.collector import FigureCollector
from sexton.insight.metrics.figures.store import FigureStore
from sexton.interfaces.api import problems
from sexton.interfaces.api.authentication import Door
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
from sexton.operators.access.login import Logins
from sexton.operators.access.sql.tokens import TokenStore
from sexton.protocol.body import MAX_BODY_BYTES
from sexton.protocol.problems import ProblemDocument
from sexton.runtime.temporal.rounds import RoundStarter


def create(settings: Settings, db: Database) -> FastAPI:
    """Return the application; its schema must have been checked."""
    refusal = {"model": ProblemDocument, "description": "what was refused, why, and what to do"}
    app = FastAPI(
        title="Sexton",
        version=importlib.metadata.version("sexton"),
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        max_body_size=MAX_BODY_BYTES,
        responses={"4XX": refusal, "5XX": refusal},
    )
    app.state.desk = desk = OperatorService(settings, db)
    app.state.logins = Logins(db)
    app.state.rounds = RoundStarter(settings)
    app.state.metrics = registry = CollectorRegistry()
    read = FigureStore(db, desk.controls, settings.policy(), *settings.intervals()).read
    ProcessCollector(registry=registry)
    registry.register(FigureCollector(read, {}, stats=False, worker=False))
    for part in (health, tokens, control, plans, protections, checks, wal, binlogs, replicas, journal):
        app.include_router(part.routes)
    problems.install(app)
    app.add_middleware(Door, tokens=TokenStore(db))
    return app
