"""Give each request an id, and log each answer in one line: without keys, names of jobs, or anything else of it.

The id is in the header ``X-Request-ID`` of the answer, and in every line that is logged meanwhile.
"""

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sexton.kernel import logs

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
