"""Nobody comes in without a token: asked before anything of the request's body is read.

Health needs none, nor does who asks for one with a password.
"""

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from sexton.interfaces.api.problems import REFUSALS, answer
from sexton.kernel.errors import BadInput
from sexton.operators.access.errors import Forbidden
from sexton.operators.access.model import Grant, Token
from sexton.operators.access.sql.tokens import TokenStore

OPEN = frozenset({"/healthz"})
OPEN_TO_POST = frozenset({"/v1/token"})

OF_NODES = ("/v1/nodes/", "/v1/topics/", "/v1/backends/", "/v1/journal")


def _open(method: str, path: str) -> bool:
    return path in OPEN or (method == "POST" and path in OPEN_TO_POST)


def _may_ever(token: Token, method: str, path: str) -> None:
    """Refuse what a token can never do before a body is read for it; the routes ask what exactly it may."""
    elsewhere = token.scope.grant is Grant.NODE and not path.startswith(OF_NODES)
    if elsewhere or (token.scope.grant is Grant.READ and method not in ("GET", "HEAD")):
        raise Forbidden(f"a token of scope {token.scope} is not for this")


class Door:
    """ASGI middleware that puts the caller's token into ``scope["state"]["token"]``, or answers 401."""

    def __init__(self, app: ASGIApp, tokens: TokenStore) -> None:
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _open(scope["method"], scope["path"]):
            given = HTTPConnection(scope).headers.get("authorization", "")
            try:
                if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                    raise BadInput("a NUL is part of no name")
                token = await run_in_threadpool(self._tokens.authenticate, given)
                _may_ever(token, scope["method"], scope["path"])
            except REFUSALS as e:
                await answer(e, f"{scope['method']} {scope['path']}")(scope, receive, send)
                return
            scope.setdefault("state", {})["token"] = token
        await self._app(scope, receive, send)
