"""Verify what callers send to prove who they are: tokens of Sexton, and JWTs of a company's own issuer."""

import asyncio

from sexton.interfaces.api.pools import Threads
from sexton.operators.access import oidc, policy
from sexton.operators.access.model import CallerIdentity, Token
from sexton.operators.access.oidc import OidcVerifier
from sexton.operators.access.policy import Presented
from sexton.operators.access.sql.tokens import TokenStore

VERIFIED_AT_ONCE = 500


class TokenVerifier:
    """Verifies the tokens of all requests that wait at the same time together.

    One query for each would let requests without a valid token, which are as many as their sender likes, delay the
    others for long. JWTs have threads of their own, because their issuer may be slow to send its keys.
    """

    def __init__(self, tokens: TokenStore, oidc_verifier: OidcVerifier | None = None) -> None:
        """Store the collaborators; without ``oidc_verifier`` JWTs are refused."""
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
            try:
                verdicts, now = await self._threads.run(self._tokens.verify, [sent for sent, _ in checked])
            except Exception as e:  # noqa: BLE001 - each request answers it
                for _, waiting in checked:
                    if not waiting.done():
                        waiting.set_exception(e)
                continue
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
