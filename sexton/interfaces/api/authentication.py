"""Verify the token of each request before its body is read.

``/healthz`` needs no token, and neither does the exchange of a password for a token.
"""

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from sexton.interfaces.api.lanes import Lanes
from sexton.interfaces.api.problems import REFUSALS, answer
from sexton.kernel.errors import BadInput
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import Grant, Token
from sexton.operators.access.sql.tokens import TokenStore

OPEN_PATHS = frozenset({"/healthz"})
OPEN_TO_POST = frozenset({"/v1/token"})
NODE_PATHS = ("/v1/nodes/", "/v1/topics/", "/v1/backends/", "/v1/journal")
"""The paths that a node's token may use."""
RESERVED_ENDINGS = ("/stop", "/finish", "/release")


def _needs_no_token(method: str, path: str) -> bool:
    return path in OPEN_PATHS or (method == "POST" and path in OPEN_TO_POST)


def _may_be_reserved(scope: Scope) -> bool:
    """Return whether the request may be for the reserved lane; its route is known only later."""
    return scope["method"] in ("PATCH", "DELETE") or scope["path"].endswith(RESERVED_ENDINGS)


def _check_scope_fits_path(token: Token, method: str, path: str) -> None:
    """Raise ``Forbidden`` for a request that the token can never send. The routes check the rest."""
    outside_nodes = token.scope.grant is Grant.NODE and not path.startswith(NODE_PATHS)
    if outside_nodes or (token.scope.grant is Grant.READ and method not in ("GET", "HEAD")):
        raise Forbidden(f"a token of scope {token.scope} is not for this")


class AuthenticationMiddleware:
    """ASGI middleware that puts the caller's token into ``scope["state"]["token"]``, or answers 401."""

    def __init__(self, app: ASGIApp, tokens: TokenStore, lanes: Lanes) -> None:
        self._app, self._tokens, self._lanes = app, tokens, lanes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _needs_no_token(scope["method"], scope["path"]):
            try:
                token = await self._authenticate(scope)
            except REFUSALS as e:
                await answer(e, f"{scope['method']} {scope['path']}")(scope, receive, send)
                return
            scope.setdefault("state", {})["token"] = token
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope) -> Token:
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise BadInput("a NUL is part of no name")
        header = HTTPConnection(scope).headers.get("authorization", "")
        threads = self._lanes.reserved_token_threads if _may_be_reserved(scope) else self._lanes.token_threads
        token = await threads.run(self._tokens.authenticate, header)
        _check_scope_fits_path(token, scope["method"], scope["path"])
        return token
