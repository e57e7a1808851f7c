"""Parse scopes and tokens, and decide what a scope permits. Pure: ``now`` is an argument."""

import hashlib
import hmac
import re
from collections.abc import Collection
from typing import NamedTuple

from sexton.kernel.errors import BadInput
from sexton.operators.access.errors import Forbidden, Unauthenticated
from sexton.operators.access.model import EVERY_INSTANCE, Grant, Token, TokenScope

MAX_DAYS = 3_650
SECRET_BYTES = 32
ID_CHARACTERS = 12
LADDER = (Grant.READ, Grant.OWNER, Grant.OPERATE, Grant.ADMIN)
SCOPES = "read, read@I, owner@I, operate@I, admin, sync:JOB@I or node:ID@I; I is an instance or *, a job's is no *"
_INSTANCE = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}|\*")
_OF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_TOKEN = re.compile(r"sxt_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
UNKNOWN_TOKEN_DIGEST = "0" * 64
"""Compared with the digest of an unknown token, so that it takes as long as a known one. No secret has this digest."""


class Presented(NamedTuple):
    """A token as a caller sent it: its public id and its secret."""

    id: str
    secret: str


def scope(text: str) -> TokenScope:
    """Return the scope that a text names: see ``SCOPES``.

    ``read`` alone covers every instance, and ``admin`` always does. All other grants name an instance, or ``*`` for
    every one. A job has one instance, because its protections have. A job's name has no colon, because its runs are
    named ``JOB:RUN``.

    Raises:
        BadInput: the text is none of these; the message says what to write.
    """
    name, at, instance = text.partition("@")
    grant, colon, of = name.partition(":")
    is_named = grant in (Grant.NODE, Grant.SYNC)
    fits = _OF.fullmatch(of) if is_named else grant in LADDER and not colon
    if not fits or (at and not _INSTANCE.fullmatch(instance)) or (at and grant == Grant.ADMIN):
        raise BadInput(f"{text!r} is no scope; write {SCOPES}")
    if not at and grant not in (Grant.READ, Grant.ADMIN):
        every = "" if grant == Grant.SYNC else f", or {name}@{EVERY_INSTANCE} for every instance"
        raise BadInput(f"scope {text!r} names no instance; write {name}@INSTANCE{every}")
    if grant == Grant.SYNC and instance == EVERY_INSTANCE:
        raise BadInput(f"scope {text!r} covers every instance, but a job copies from one; write {name}@INSTANCE")
    return TokenScope(Grant(grant), of, instance or EVERY_INSTANCE)


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


def check(
    scope_: TokenScope, required: Grant, instance: str, *, job: str | None = None, node: str | None = None
) -> None:
    """Raise ``Forbidden`` unless the scope permits a request.

    The message does not name the instance: a request may name a plan or a check, and the caller does not learn whose.

    Args:
        scope_: of the token.
        required: ``read``, ``owner``, ``operate`` or ``admin``.
        instance: the instance that the request is about; ``EVERY_INSTANCE``: it belongs to no single one.
        job: the job that the request is about, if any: its own token is accepted too.
        node: the node that the request is about, if any: its own token is accepted too.
    """
    if covers(scope_, instance):
        if scope_.grant in LADDER and LADDER.index(scope_.grant) >= LADDER.index(required):
            return
        if scope_.grant is Grant.SYNC and job is not None and runs(scope_.of, job):
            return
        if scope_.grant is Grant.NODE and node is not None and scope_.of == node:
            return
    where = "for every instance" if instance == EVERY_INSTANCE else "for the instance of the request"
    accepted = str(required)
    if job is not None:
        accepted += f", or the job's own (sync:{job.partition(':')[0]})"
    if node is not None:
        accepted += f", or the node's own (node:{node or 'ID'})"
    raise Forbidden(f"this needs a token of scope {accepted}, {where}; this one has {scope_}")


def covers(scope_: TokenScope, instance: str) -> bool:
    """Return whether the scope covers an instance; ``EVERY_INSTANCE``: whether it covers all of them."""
    return scope_.instance in (EVERY_INSTANCE, instance)


def check_log(scope_: TokenScope, consumers: Collection[str]) -> None:
    """Raise ``Forbidden`` if a job's token is sent for a log that is not registered for the job.

    Args:
        scope_: of the token; ``check`` has accepted it.
        consumers: the names of the log's registered consumers.
    """
    if scope_.grant is Grant.SYNC and not any(runs(scope_.of, name) for name in consumers):
        raise Forbidden(
            f"no consumer {scope_.of} of this log is registered; a token of scope operate@INSTANCE registers it: "
            f"PUT /v1/consumers/{scope_.of}"
        )


def runs(name: str, job: str) -> bool:
    """Return whether a job is the named one, or a run of it: ``NAME:RUN``."""
    return job == name or job.startswith(f"{name}:")
