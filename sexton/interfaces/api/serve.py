"""Serve the API until SIGTERM or Ctrl-C. Each answer is one line of the log, without keys or names of jobs.

The id of a request is in the header ``X-Request-ID`` of the answer, and in every line that is logged meanwhile.
"""

import logging
import re
import secrets
import socket
import time
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from config.sections import ApiSection
from config.settings import Settings
from sexton.database.engine import Database
from sexton.interfaces.api.app import create
from sexton.kernel import logs
from sexton.kernel.errors import SextonError
from sexton.kernel.process import search_cycles_rarely
from sexton.kernel.trust import is_loopback

log = logging.getLogger(__name__)
HEADER = "X-Request-ID"
QUIET_PATHS = frozenset({"/livez", "/readyz", "/healthz", "/metrics"})
"""Asked every few seconds by machines: their answers are logged only if they are errors."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class AccessLog:
    """ASGI middleware around everything else."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and log it even if its client has gone."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get(HEADER, "")
        id_ = given if _ID.fullmatch(given) else secrets.token_hex(8)
        logs.bind(request=id_)  # each request has a task, and so a context, of its own
        began, status = time.monotonic(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            level = logging.DEBUG if scope["path"] in QUIET_PATHS and status < 400 else logging.INFO
            template = getattr(scope.get("route"), "path", "*")  # no route: the path may be anything
            caller = getattr(scope.get("state", {}).get("identity"), "name", "no known caller")
            method, outcome, took_ms = scope["method"], status or "no answer", (time.monotonic() - began) * 1000
            log.log(level, "%s %s: %s in %.0f ms, for %s", method, template, outcome, took_ms, caller)


SHUTDOWN_SECONDS = 10
MAX_CONNECTIONS = 500
"""Further ones are answered 503: at the usual limit of 1,024 open files the database's connections need some, too."""
KEEP_ALIVE_SECONDS = 15
"""Longer than nginx and Caddy pause between two requests of a busy client."""
MAX_HEAD_BYTES = 16 << 10


class CannotListen(SextonError):
    """The address is in use or is not an address of this machine, or the certificate cannot be used."""


class InsecureListener(SextonError):
    """Tokens would be sent in clear text over a network."""


def serve(settings: Settings, db: Database, beside: Callable[[FastAPI], ASGIApp] | None = None) -> None:
    """Answer requests at the settings' address; ``beside`` puts something beside the API, such as the console.

    Raises:
        CannotListen: the address or the certificate cannot be used.
        InsecureListener: requests would come over a network without TLS, and the settings do not permit that.
    """
    api = settings.api
    host, _, port = api.listen.rpartition(":")
    host = host.strip("[]")
    check_security(host, api)
    app = create(settings, db)
    app.openapi()  # FastAPI keeps it; to write it takes half a second, in which no request would be answered
    config = uvicorn.Config(
        AccessLog(app if beside is None else beside(app)),
        host=host,
        port=int(port),
        http="h11",
        ws="none",
        ssl_certfile=api.tls_cert or None,
        ssl_keyfile=api.tls_key or None,
        access_log=False,  # its lines would contain keys and names of jobs; AccessLog's do not
        log_config=None,
        server_header=False,
        proxy_headers=False,  # the application has the networks of its proxies
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )
    try:
        config.load()
    except OSError as e:
        raise CannotListen(f"api.tls_cert {api.tls_cert} and api.tls_key {api.tls_key} cannot be used: {e}") from e
    server = uvicorn.Server(config)
    app.state.is_stopping = lambda: server.should_exit
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, int(port)), family=family, backlog=config.backlog)
    except (OSError, OverflowError) as e:
        raise CannotListen(
            f"cannot listen on {api.listen} ({e}); set SEXTON_API__LISTEN to a free HOST:PORT of this machine"
        ) from e
    search_cycles_rarely()
    what = "the API is" if beside is None else "the console, at /console, and the API are"
    log.info("%s listening on %s://%s", what, "https" if api.tls_cert else "http", api.listen)
    server.run(sockets=[listener])


def check_security(host: str, api: ApiSection) -> None:
    """Raise ``InsecureListener`` if requests to a host would need TLS; warn if the settings do without it."""
    if api.tls_key and not api.tls_cert:
        raise CannotListen("api.tls_key is set and api.tls_cert is not: set both, or neither")
    if api.tls_cert or is_loopback(host):
        return
    if not api.insecure:
        raise InsecureListener(
            f"tokens would be sent to {host} in clear text: set api.tls_cert and api.tls_key, or listen on loopback "
            "behind a TLS proxy; in a network that you trust: sexton api --insecure"
        )
    log.warning("tokens are sent to %s in clear text, because api.insecure is set", host)
