"""Verify the token of each request before its body is read.

``/healthz`` needs no token, and neither does the exchange of a password for a token.
"""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from sexton.interfaces.api.caller import source_of
from sexton.interfaces.api.lanes import Threads
from sexton.interfaces.api.problems import REFUSALS, answer
from sexton.kernel.errors import BadInput, code_of
from sexton.operators.access.credentials import network
from sexton.operators.access.errors import Forbidden, Unauthenticated
from sexton.operators.access.model import Grant, Token
from sexton.operators.access.policy import Presented, presented
from sexton.operators.access.sql.tokens import TokenStore
from sexton.operators.call_log.model import CallRecord
from sexton.operators.call_log.store import CallStore

OPEN_PATHS = frozenset({"/healthz"})
OPEN_TO_POST = frozenset({"/v1/token"})
NODE_PATHS = ("/v1/nodes/", "/v1/topics/", "/v1/backends/", "/v1/journal")
"""The paths that a node's token may use."""
MAX_SEGMENTS = 10
VERIFIED_AT_ONCE = 500


def _needs_no_token(method: str, path: str) -> bool:
    return path in OPEN_PATHS or (method == "POST" and path in OPEN_TO_POST)


def _check_scope_fits_path(token: Token, method: str, path: str) -> None:
    """Raise ``Forbidden`` for a request that the token can never send. The routes check the rest."""
    outside_nodes = token.scope.grant is Grant.NODE and not path.startswith(NODE_PATHS)
    if outside_nodes or (token.scope.grant is Grant.READ and method not in ("GET", "HEAD")):
        raise Forbidden(f"a token of scope {token.scope} is not for this")


class TokenCheck:
    """Verifies the tokens of all requests that wait at the same time together.

    One query for each would let requests without a valid token, which are as many as their sender likes, delay the
    others for long.
    """

    def __init__(self, tokens: TokenStore) -> None:
        self._tokens, self._threads = tokens, Threads(1)
        self._waiting: list[tuple[Presented, asyncio.Future[Token]]] = []
        self._verifying: asyncio.Task[None] | None = None

    async def authenticate(self, authorization: str) -> Token:
        """Return the token in an ``Authorization`` header; raise ``Unauthenticated`` if it is not valid."""
        verdict: asyncio.Future[Token] = asyncio.get_running_loop().create_future()
        self._waiting.append((presented(authorization), verdict))
        if self._verifying is None or self._verifying.done():
            self._verifying = asyncio.create_task(self._verify())
        return await verdict

    async def _verify(self) -> None:
        while self._waiting:
            checked, self._waiting = self._waiting[:VERIFIED_AT_ONCE], self._waiting[VERIFIED_AT_ONCE:]
            verdicts: Sequence[Token | Exception]
            try:
                verdicts = await self._threads.run(self._tokens.verify, [sent for sent, _ in checked])
            except Exception as e:  # noqa: BLE001 - each request answers it
                verdicts = [e] * len(checked)
            for (_, waiting), verdict in zip(checked, verdicts, strict=True):
                if waiting.done():
                    continue
                if isinstance(verdict, Token):
                    waiting.set_result(verdict)
                else:
                    waiting.set_exception(verdict)


class AuthenticationMiddleware:
    """ASGI middleware that puts the caller's token into ``scope["state"]["token"]``, or answers 401."""

    def __init__(self, app: ASGIApp, tokens: TokenStore, calls: CallStore, words: Collection[str]) -> None:
        """Store the collaborators; ``words``: the fixed segments of paths, the only ones that are logged."""
        self._app, self._tokens, self._calls = app, TokenCheck(tokens), calls
        self._words, self._log_threads = frozenset(words), Threads(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _needs_no_token(scope["method"], scope["path"]):
            state = scope.setdefault("state", {})
            try:
                await self._authenticate(scope, state)
            except REFUSALS as e:
                if isinstance(e, Unauthenticated | Forbidden):
                    await self._log_threads.run(self._log_refusal, scope, state.get("token"), code_of(e))
                await answer(e, f"{scope['method']} {scope['path']}")(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _authenticate(self, scope: Scope, state: dict[str, Any]) -> None:
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            raise BadInput("a NUL is part of no name")
        header = HTTPConnection(scope).headers.get("authorization", "")
        state["token"] = token = await self._tokens.authenticate(header)
        _check_scope_fits_path(token, scope["method"], scope["path"])

    def _log_refusal(self, scope: Scope, token: Token | None, outcome: str) -> None:
        """Log a refused request: repetitions of one token, or of one address without a valid token, are counted."""
        source = source_of(HTTPConnection(scope))
        path = "/".join(part if part in self._words else "*" for part in scope["path"].split("/")[:MAX_SEGMENTS])
        call = CallRecord(who="unknown", source=source, action=f"{scope['method']} {path}")
        if token is None:
            self._calls.refused(call, outcome, key=("unknown", network(source)))
        else:
            self._calls.refused(call.model_copy(update={"who": token.name}), outcome)
