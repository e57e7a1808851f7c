"""Compose the console beside the API: the same tokens, scopes, stores and log of calls, other pages."""

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from sexton.interfaces.api.caller import source_of
from sexton.interfaces.api.problems import READING, REFUSALS, log_failure, log_refusal, problem
from sexton.interfaces.console import rendering, session
from sexton.interfaces.console.latest import Latest
from sexton.interfaces.console.routes import (  # noqa: F401 - each adds its pages
    access,
    blockers,
    checks,
    login,
    marks,
    operations,
    overview,
    plans,
    rounds,
    settings,
    topics,
    vaults,
)
from sexton.interfaces.console.visit import InstanceNotChosen, ask_for_one, pages
from sexton.operators.access.model import Unauthenticated
from sexton.operators.call_log import CallRecord
from sexton.runtime.blockers.listing import list_blockers

YEAR_SECONDS = 31_536_000


def beside(api: FastAPI) -> ASGIApp:
    """Return the API with the console at ``/console``; the API has the lifespan and every other path."""
    console = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False)
    for name in ("service", "pools", "verifier"):
        setattr(console.state, name, getattr(api.state, name))
    service = api.state.service
    console.state.statuses = Latest(lambda instance: service.status(instance).instances[0], threads=4)
    console.state.blockers = Latest(lambda _: list_blockers(service, None), threads=1)
    console.state.logs = Latest(lambda _: service.stores.log_figures(), threads=1)
    console.include_router(pages)
    console.mount(f"{session.PATH}/static", _StaticAssets(directory=rendering.STATIC))
    if service.settings.api.trusted_proxies:
        console.add_middleware(ProxyHeadersMiddleware, trusted_hosts=service.settings.api.trusted_proxies)
    for kind in (Exception, *REFUSALS, RequestValidationError, HTTPException):
        console.add_exception_handler(kind, _refuse)
    console.add_exception_handler(InstanceNotChosen, ask_for_one)

    async def by_path(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path in ("/", f"{session.PATH}/") and scope["method"] in READING:
            await RedirectResponse(session.PATH, 303)(scope, receive, send)
        elif path == session.PATH or path.startswith(f"{session.PATH}/"):
            await console(scope, receive, send)
        else:
            await api(scope, receive, send)

    return by_path


class _StaticAssets(StaticFiles):
    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = f"public, max-age={YEAR_SECONDS}, immutable"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer an error with a page that says what was refused, why, and what to do."""
    if isinstance(error, Unauthenticated):
        if name := getattr(error, "caller", ""):  # of a token that has ended or was revoked; its use is logged
            action = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
            call = CallRecord(who=name, source=source_of(request), action=action)
            calls = request.app.state.service.stores.calls
            await request.app.state.pools.refusals.run(calls.refused, call, problem(error).code)
        is_lost = request.method not in READING
        path, query = (session.PATH, "") if is_lost else (request.url.path, request.url.query)
        to = login.address(path, query, lost=is_lost)
        if request.headers.get("hx-request"):  # a live part cannot show the login, so the whole page goes there
            return Response(status_code=401, headers=rendering.HEADERS | {"HX-Redirect": to})
        return RedirectResponse(to, 303, rendering.HEADERS)
    document = problem(error)
    log_failure(error, request, document)
    await log_refusal(error, request)
    values = {"problem": document, "changed_nothing": request.method in READING or document.status < 500}
    return rendering.page(request, "refused.html", values, document.status)
