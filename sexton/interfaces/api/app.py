"""Compose the application over one database, and describe it for generators of clients.

The OpenAPI document, ``/v1/openapi.json``, needs a token.
"""

import functools
import importlib.metadata
import json
import re
from typing import Any

from fastapi import FastAPI, Response
from fastapi.routing import APIRoute
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from config.settings import Settings
from sexton.database.engine import Database
from sexton.insight.health import Health, database_check
from sexton.insight.metrics.collector import DeploymentRegistry, FigureCollector, PoolCollector
from sexton.interfaces.api import problems
from sexton.interfaces.api.authentication import OPEN_PATHS, AuthenticationMiddleware, TokenVerifier
from sexton.interfaces.api.pools import Pools
from sexton.interfaces.api.routes import health, journal, operations, rounds
from sexton.operations.fields import ProblemDocument
from sexton.operators.access.model import OidcSettings
from sexton.operators.access.oidc import OidcVerifier
from sexton.runtime.deployment import Deployment

TOKEN = "token"
"""The security scheme of every request but those that need none."""
PROBLEM = "application/problem+json"


def create(settings: Settings, db: Database) -> FastAPI:
    """Return the application. The caller must have checked the database's schema."""
    refusal = {"model": ProblemDocument, "description": "what was refused and why, and what to do"}
    app = FastAPI(
        title="Sexton",
        version=importlib.metadata.version("sexton"),
        openapi_url=None,  # FastAPI would write the whole document again for every request
        docs_url=None,  # the page loads scripts from another site
        redoc_url=None,
        generate_unique_id_function=operation_id,
        redirect_slashes=False,  # a redirect would lead to the host that the request names
        responses={"4XX": refusal, "5XX": refusal},
    )
    app.state.service = service = Deployment(settings, db)
    app.state.pools = pools = Pools()
    app.state.is_stopping = lambda: False
    ready = {"database": database_check(db, settings.require_deployment())}
    app.state.health = health.HealthCheck(Health(live={}, ready=ready), pools.health)
    figures = service.stores.figures(service.policy, service.live.current.map(Settings.intervals))
    collector = FigureCollector(figures.read, None, update=figures.update, per_instance=settings.metrics.per_instance)
    app.state.metrics = DeploymentRegistry(settings.require_deployment(), collector, PoolCollector(db.engine))
    words = {"v1", ""}
    for routes in (health.routes, rounds.routes, journal.routes, operations.router()):
        app.include_router(routes)
        templates = [getattr(route, "path", "") for route in routes.routes]
        words |= {word for template in templates for word in template.split("/") if "{" not in word}
    app.include_router(health.guarded)

    @functools.cache
    def description() -> str:
        return json.dumps(describe(app), separators=(",", ":"))

    @app.get("/v1/openapi.json", include_in_schema=False)
    async def openapi() -> Response:  # in the event loop: requests in threads would each write the first one
        return Response(description(), media_type="application/json")

    problems.install(app)
    oidc = OidcVerifier(OidcSettings(**settings.oidc.model_dump())) if settings.oidc.issuer else None
    app.state.verifier = verifier = TokenVerifier(service.stores.tokens, oidc)
    app.add_middleware(AuthenticationMiddleware, verifier=verifier, calls=service.stores.calls, words=words)
    if settings.api.trusted_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=settings.api.trusted_proxies)
    return app


def operation_id(route: APIRoute) -> str:
    """Return the name that a generated client gives a route: its subject and what it does, such as ``holds_place``."""
    name = re.sub(r"\W+", "_", route.name).strip("_")
    subject = route.endpoint.__module__.rpartition(".")[2]
    if subject == "operations":
        return name
    return f"{subject}_list" if name == subject else f"{subject}_{name}"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application: with tags, security, problem documents, and whole numbers of 64 bits."""
    document = app.openapi()
    schemes = document.setdefault("components", {}).setdefault("securitySchemes", {})
    schemes[TOKEN] = {"type": "http", "scheme": "bearer", "description": "a token of Sexton, or a JWT of your issuer"}
    document["security"] = [{TOKEN: []}]
    for path, of_path in document["paths"].items():
        for operation in of_path.values():
            operation["tags"] = [operation["operationId"].partition("_")[0]]
            if path in OPEN_PATHS:
                operation["security"] = []
            for status in ("4XX", "5XX"):
                content = operation["responses"][status]["content"]
                if "application/json" in content:
                    content[PROBLEM] = content.pop("application/json")
    names = {operation["tags"][0] for of_path in document["paths"].values() for operation in of_path.values()}
    document["tags"] = [{"name": name} for name in sorted(names)]
    # Pydantic also describes what a serializer replaces, which no answer has.
    text, schemas = json.dumps(document), document["components"]["schemas"]
    used = {name: schema for name, schema in schemas.items() if f'schemas/{name}"' in text}
    document["components"]["schemas"] = used
    _refine(document)
    return document


def _refine(schema: Any) -> None:
    """Give every integer its size, and leave out what generators cannot write: tuples, and all but simple defaults."""
    if isinstance(schema, dict):
        if isinstance(schema.get("default"), dict | list) or "anyOf" in schema:
            schema.pop("default", None)
        if schema.get("type") == "integer":
            schema.setdefault("format", "int64")
        first = next(iter(schema.get("prefixItems", ())), None)
        if first is not None and all(item == first for item in schema["prefixItems"]):
            schema["items"] = schema.pop("prefixItems")[0]
        for value in schema.values():
            _refine(value)
    elif isinstance(schema, list):
        for value in schema:
            _refine(value)
