"""Parse scopes and tokens, and decide what a scope permits. Pure: ``now`` is an argument."""

import hashlib
import hmac
import re
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.operators.access.errors import Forbidden, Unauthenticated
from sexton.operators.access.model import Grant, Token, TokenScope

MAX_DAYS = 3_650
SECRET_BYTES = 32
ID_CHARACTERS = 12
LADDER = (Grant.READ, Grant.OPERATE, Grant.ADMIN)
_OF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_TOKEN = re.compile(r"sxt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
UNKNOWN_TOKEN_DIGEST = "0" * 64
"""Compared with the digest of an unknown token, so that it takes as long as a known one. No secret has this digest."""


class Presented(NamedTuple):
    """A token as a caller sent it: its public id and its secret."""

    id: str
    secret: str


def scope(text: str) -> TokenScope:
    """Return the scope for ``read``, ``operate``, ``admin``, ``node:ID`` or ``sync:JOB``.

    A job's name has no colon, because its runs are named ``JOB:RUN``.

    Raises:
        BadInput: the text is none of these.
    """
    grant, _, of = text.partition(":")
    if grant in (Grant.NODE, Grant.SYNC):
        if _OF.fullmatch(of):
            return TokenScope(Grant(grant), of)
    elif grant in LADDER and grant == text:
        return TokenScope(Grant(grant))
    raise BadInput(f"{text!r} is no scope; write read, operate, admin, node:ID or sync:JOB")


def token_text(id_: str, secret: str) -> str:
    """Return the text of a token, as its holder stores it."""
    return f"sxt_{id_}_{secret}"


def presented(authorization: str) -> Presented:
    """Return the token in an ``Authorization`` header.

    Raises:
        Unauthenticated: the header has no token of Sexton.
    """
    kind, _, token = authorization.strip().partition(" ")
    match = _TOKEN.fullmatch(token.strip())
    if kind.lower() != "bearer" or match is None:
        raise Unauthenticated("send a token: `Authorization: Bearer sxt_…`; make one: sexton token create")
    return Presented(match[1], match[2])


def digest(secret: str) -> str:
    """Return the stored digest of a secret. A slower hash adds no safety: the secret has 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def valid(token: Token | None, stored: str, sent: Presented, now: int) -> Token:
    """Return the token if its secret was sent and it is neither revoked nor expired. Compare in constant time.

    Raises:
        Unauthenticated: one message for an unknown token and a wrong secret; with the right secret, the message says
            why the token is no longer valid.
    """
    secret_matches = hmac.compare_digest(stored.encode(), digest(sent.secret).encode())
    if token is None or not secret_matches:
        raise Unauthenticated("this token is not known; make one: sexton token create")
    remedy = "make another: sexton token create" if token.of_user is None else "log in again: POST /v1/token"
    if token.revoked_at is not None:
        raise Unauthenticated(f"token {token.id} is revoked; {remedy}")
    if now >= token.expires_at:
        raise Unauthenticated(f"token {token.id} has expired; {remedy}")
    return token


def check(scope_: TokenScope, required: Grant, job: str | None = None, node: str | None = None) -> None:
    """Raise ``Forbidden`` unless the scope permits a request.

    Args:
        scope_: of the token.
        required: ``read``, ``operate`` or ``admin``.
        job: the job that the request is about, if any: its own token is accepted too.
        node: the node that the request is about, if any: its own token is accepted too.
    """
    if scope_.grant in LADDER and LADDER.index(scope_.grant) >= LADDER.index(required):
        return
    if scope_.grant is Grant.SYNC and job is not None and runs(scope_.of, job):
        return
    if scope_.grant is Grant.NODE and node is not None and scope_.of == node:
        return
    accepted = str(required)
    if job is not None:
        accepted += f", or the job's own (sync:{job.partition(':')[0]})"
    if node is not None:
        accepted += f", or the node's own (node:{node or 'ID'})"
    raise Forbidden(f"this needs a token of scope {accepted}; this one has {scope_}")


def runs(name: str, job: str) -> bool:
    """Return whether a job is the named one, or a run of it: ``NAME:RUN``."""
    return job == name or job.startswith(f"{name}:")
