"""Authenticate the sender of each request before its body is read.

``/livez``, ``/readyz`` and ``/healthz`` need no token.
"""

from collections.abc import Collection
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from sexton.interfaces.api.caller import source_of
from sexton.interfaces.api.pools import Threads
from sexton.interfaces.api.problems import REFUSALS, answer
from sexton.interfaces.api.token_verifier import TokenVerifier
from sexton.kernel.errors import BadInput, code_of
from sexton.operators.access.errors import Forbidden, Unauthenticated
from sexton.operators.access.model import CallerIdentity, Grant, TokenScope, scopes_text
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
NODE_PATHS = ("/v1/nodes/", "/v1/topics/", "/v1/backends/", "/v1/journal")
"""The paths that a node's token may use."""
MAX_SEGMENTS = 10


def _fits_path(scope: TokenScope, method: str, path: str) -> bool:
    """Return whether a token can ever send such a request. The routes check the rest."""
    if scope.grant is Grant.NODE:
        return path.startswith(NODE_PATHS)
    return scope.grant is not Grant.READ or method in ("GET", "HEAD")


class AuthenticationMiddleware:
    """ASGI middleware that puts the caller into ``scope["state"]["identity"]``, or answers 401."""

    def __init__(self, app: ASGIApp, verifier: TokenVerifier, calls: CallStore, words: Collection[str]) -> None:
        """Store the collaborators; ``words``: the fixed segments of paths, the only ones that are logged."""
        self._app, self._verifier, self._calls = app, verifier, calls
        self._words, self._log_threads = frozenset(words), Threads(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN_PATHS:
            state = scope.setdefault("state", {})
            try:
                await self._authenticate(scope, state)
            except REFUSALS as e:
                if isinstance(e, Unauthenticated | Forbidden):
                    identity: CallerIdentity | None = state.get("identity")
                    name = identity.name if identity is not None else getattr(e, "caller", "")
                    await self._log_threads.run(self._log_refusal, scope, name, code_of(e))
                await answer(e, HTTPConnection(scope))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope, state: dict[str, Any]) -> None:
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise BadInput("a NUL is part of no name")
        header = HTTPConnection(scope).headers.get("authorization", "")
        state["identity"] = caller = await self._verifier.authenticate(header)
        if not any(_fits_path(of_token, scope["method"], scope["path"]) for of_token in caller.scopes):
            raise Forbidden(f"a token of scope {scopes_text(caller.scopes)} is not for this")

    def _log_refusal(self, scope: Scope, caller: str, outcome: str) -> None:
        """Log a refused request; ``caller``: the name of its token, empty if it has no known one."""
        source = source_of(HTTPConnection(scope))
        path = "/".join(part if part in self._words else "*" for part in scope["path"].split("/")[:MAX_SEGMENTS])
        call = CallRecord(who=caller or "unknown", source=source, action=f"{scope['method']} {path}")
        self._calls.refused(call, outcome)
