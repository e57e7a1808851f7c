"""What scopes are, what each allows, and what a token looks like. Pure: ``now`` is an argument."""

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
NOBODY = "0" * 64
"""The digest that an unknown token is compared with, so that it takes as long as a known one; no secret has it."""


class Presented(NamedTuple):
    """A token as somebody sent it: its public id and its secret."""

    id: str
    secret: str


def scope(text: str) -> TokenScope:
    """Return the scope of ``read``, ``operate``, ``admin``, ``node:ID`` or ``sync:JOB``; ``BadInput`` of anything else.

    A colon ends the name of a job: its runs are ``JOB:RUN``.
    """
    grant, _, of = text.partition(":")
    if grant in (Grant.NODE, Grant.SYNC):
        if _OF.fullmatch(of):
            return TokenScope(Grant(grant), of)
    elif grant in LADDER and grant == text:
        return TokenScope(Grant(grant))
    raise BadInput(f"{text!r} is no scope; write read, operate, admin, node:ID or sync:JOB")


def written(id_: str, secret: str) -> str:
    """Return a token as its holder keeps it."""
    return f"sxt_{id_}_{secret}"


def presented(authorization: str) -> Presented:
    """Return what an ``Authorization`` header carries; ``Unauthenticated`` where it carries no token of ours."""
    kind, _, token = authorization.strip().partition(" ")
    found = _TOKEN.fullmatch(token.strip())
    if kind.lower() != "bearer" or found is None:
        raise Unauthenticated("send a token: `Authorization: Bearer sxt_…`; make one: sexton token create")
    return Presented(found[1], found[2])


def digest(secret: str) -> str:
    """Return what is stored of a secret. It is 256 random bits: nothing slower than SHA-256 would make it safer."""
    return hashlib.sha256(secret.encode()).hexdigest()


def valid(token: Token | None, stored: str, given: Presented, now: int) -> Token:
    """Return the token, if the secret is its own and its time is not over; compared in constant time.

    Raises:
        Unauthenticated: unknown and wrong in one sentence; why a token of the right secret no longer counts is said.
    """
    same = hmac.compare_digest(stored.encode(), digest(given.secret).encode())
    if token is None or not same:
        raise Unauthenticated("this token is not known; make one: sexton token create")
    another = "make another: sexton token create" if token.of_user is None else "log in again: POST /v1/token"
    if token.revoked_at is not None:
        raise Unauthenticated(f"token {token.id} is revoked; {another}")
    if now >= token.expires_at:
        raise Unauthenticated(f"the time of token {token.id} is over; {another}")
    return token


def check(scope_: TokenScope, needs: Grant, job: str | None = None, node: str | None = None) -> None:
    """Raise ``Forbidden`` unless the scope allows what needs a grant.

    Args:
        scope_: of the token.
        needs: ``read``, ``operate`` or ``admin``.
        job: whose protection it is about, if it is: the job's own token does too.
        node: which node says it, if one does: its own token does too.
    """
    if scope_.grant in LADDER and LADDER.index(scope_.grant) >= LADDER.index(needs):
        return
    if scope_.grant is Grant.SYNC and job is not None and runs(scope_.of, job):
        return
    if scope_.grant is Grant.NODE and node is not None and scope_.of == node:
        return
    what = str(needs)
    if job is not None:
        what += f", or the job's own (sync:{job.partition(':')[0]})"
    if node is not None:
        what += f", or the node's own (node:{node or 'ID'})"
    raise Forbidden(f"this needs a token of scope {what}; this one has {scope_}")


def runs(name: str, job: str) -> bool:
    """Tell whether a job is the named one, or a run of it: ``NAME:RUN``."""
    return job == name or job.startswith(f"{name}:")
