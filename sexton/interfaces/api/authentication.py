"""Authenticate the sender of each request before its body is read.

``/livez``, ``/readyz`` and ``/healthz`` need no token.
"""

import asyncio
from collections.abc import Collection, Sequence

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from sexton.interfaces.api.caller import source_of
from sexton.interfaces.api.pools import Threads
from sexton.interfaces.api.problems import REFUSALS, answer
from sexton.kernel.errors import BadInput, code_of
from sexton.operators.access import oidc, policy
from sexton.operators.access.model import (
    CallerIdentity,
    Forbidden,
    Grant,
    Token,
    TokenScope,
    Unauthenticated,
    scopes_text,
)
from sexton.operators.access.oidc import OidcVerifier
from sexton.operators.access.policy import Presented
from sexton.operators.access.store import TokenStore
from sexton.operators.call_log import CallRecord, CallStore

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz"})
NODE_PATHS = ("/v1/nodes/", "/v1/topics/", "/v1/backends/", "/v1/journal")
"""The paths that a node's token may use."""
MAX_SEGMENTS = 10
VERIFIED_AT_ONCE = 500


class TokenVerifier:
    """Verifies the tokens of all requests that wait at the same time together.

    One query for each would let requests without a valid token, which are as many as their sender likes, delay the
    others for long. JWTs have threads of their own, because their issuer may be slow to send its keys.
    """

    def __init__(self, tokens: TokenStore, oidc_verifier: OidcVerifier | None = None) -> None:
        """Without ``oidc_verifier`` JWTs are refused."""
        self._tokens, self._oidc = tokens, oidc_verifier
        self._threads, self._use_threads, self._jwt_threads = Threads(1), Threads(1), Threads(2)
        self._waiting: list[tuple[Presented, asyncio.Future[Token]]] = []
        self._verifying: asyncio.Task[None] | None = None
        self._used: dict[str, Token] = {}
        self._storing_uses: asyncio.Task[None] | None = None

    async def authenticate(self, authorization: str) -> CallerIdentity:
        """Return the caller that an ``Authorization`` header names.

        Raises:
            Unauthenticated: its token is not valid.
            Forbidden: it is a JWT that maps to no scope.
            IssuerAway: it is a JWT whose issuer's keys are not known now.
        """
        text = policy.bearer(authorization)
        if self._oidc is not None and oidc.is_jwt(text):
            return await self._jwt_threads.run(self._oidc.authenticate, text)
        verdict: asyncio.Future[Token] = asyncio.get_running_loop().create_future()
        self._waiting.append((policy.presented(authorization), verdict))
        if self._verifying is None or self._verifying.done():
            self._verifying = asyncio.create_task(self._verify())
        return (await verdict).identity

    async def _verify(self) -> None:
        while self._waiting:
            checked, self._waiting = self._waiting[:VERIFIED_AT_ONCE], self._waiting[VERIFIED_AT_ONCE:]
            verdicts: Sequence[Token | Exception]
            try:
                verdicts, now = await self._threads.run(self._tokens.verify, [sent for sent, _ in checked])
            except Exception as e:  # noqa: BLE001 - each request answers it
                verdicts, now = [e] * len(checked), 0
            for (_, waiting), verdict in zip(checked, verdicts, strict=True):
                if isinstance(verdict, Token) and policy.is_use_due(verdict, now):
                    self._used[verdict.id] = verdict
                if waiting.done():
                    continue
                if isinstance(verdict, Token):
                    waiting.set_result(verdict)
                else:
                    waiting.set_exception(verdict)
            if self._used and (self._storing_uses is None or self._storing_uses.done()):
                self._storing_uses = asyncio.create_task(self._store_uses())

    async def _store_uses(self) -> None:
        """Store that tokens were used; no request waits for it."""
        while self._used:
            _, token = self._used.popitem()
            await self._use_threads.run(self._tokens.record_use, token)


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
                if "\0" in scope["path"] or b"%00" in scope["query_string"]:
                    raise BadInput("a NUL is part of no name")
                header = HTTPConnection(scope).headers.get("authorization", "")
                state["identity"] = caller = await self._verifier.authenticate(header)
                if not any(_fits_path(of_token, scope["method"], scope["path"]) for of_token in caller.scopes):
                    raise Forbidden(f"a token of scope {scopes_text(caller.scopes)} is not for this")
            except REFUSALS as e:
                if isinstance(e, Unauthenticated | Forbidden):
                    identity: CallerIdentity | None = state.get("identity")
                    name = identity.name if identity is not None else getattr(e, "caller", "")
                    await self._log_threads.run(self._log_refusal, scope, name, code_of(e))
                await answer(e, HTTPConnection(scope))(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _log_refusal(self, scope: Scope, caller: str, outcome: str) -> None:
        """Log a refused request; ``caller``: the name of its token, empty if it has no known one."""
        source = source_of(HTTPConnection(scope))
        path = "/".join(part if part in self._words else "*" for part in scope["path"].split("/")[:MAX_SEGMENTS])
        call = CallRecord(who=caller or "unknown", source=source, action=f"{scope['method']} {path}")
        self._calls.refused(call, outcome)
