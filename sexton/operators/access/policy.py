"""Parse scopes and tokens, and decide what a scope permits. Pure: ``now`` is an argument."""

import hashlib
import hmac
import re
from collections.abc import Collection
from typing import NamedTuple

from sexton.kernel.errors import BadInput, WrongUsage
from sexton.operators.access.model import (
    ANY_NODE,
    EVERY_INSTANCE,
    UNKNOWN_INSTANCE,
    Forbidden,
    Grant,
    Token,
    TokenScope,
    Unauthenticated,
    scopes_text,
)

MAX_DAYS = 366
DAY_MS = 86_400_000
USE_INTERVAL_MS = 60_000
EXPIRES_SOON_MS, USED_LATELY_MS = 14 * DAY_MS, 14 * DAY_MS
SECRET_BYTES = 32
ID_CHARACTERS = 12
LADDER = (Grant.READ, Grant.OWNER, Grant.OPERATE, Grant.ADMIN)
SCOPES = (
    "read, read@I, owner@I, commit@I, operate@I, admin, sync:JOB@I or node:ID@I; I is an instance or *, a job's is no *"
)
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
    fits = _OF.fullmatch(of) if is_named else grant in (*LADDER, Grant.COMMIT) and not colon
    if not fits or (at and not _INSTANCE.fullmatch(instance)) or (at and grant == Grant.ADMIN):
        raise WrongUsage(f"{text!r} is no scope; write {SCOPES}")
    if not at and grant not in (Grant.READ, Grant.ADMIN):
        every = "" if grant == Grant.SYNC else f", or {name}@{EVERY_INSTANCE} for every instance"
        raise WrongUsage(f"scope {text!r} names no instance; write {name}@INSTANCE{every}")
    if grant == Grant.SYNC and instance == EVERY_INSTANCE:
        raise WrongUsage(f"scope {text!r} covers every instance, but a job copies from one; write {name}@INSTANCE")
    return TokenScope(Grant(grant), of, instance or EVERY_INSTANCE)


def stored_scope(text: str) -> TokenScope:
    """Return the scope of a row; one that cannot be read permits nothing, and the other rows are still read."""
    try:
        return scope(text)
    except BadInput:
        return TokenScope(Grant.UNREADABLE, text, UNKNOWN_INSTANCE)


def token_text(id_: str, secret: str) -> str:
    """Return the text of a token, as its holder stores it."""
    return f"sxt_{id_}_{secret}"


def bearer(authorization: str) -> str:
    """Return the token in an ``Authorization`` header; empty: it has none."""
    kind, _, token = authorization.strip().partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def presented(authorization: str) -> Presented:
    """Return the token of Sexton in an ``Authorization`` header.

    Raises:
        Unauthenticated: the header has no token of Sexton.
    """
    match = _TOKEN.fullmatch(bearer(authorization))
    if match is None:
        raise Unauthenticated("send a token: `Authorization: Bearer sxt_…`; make one: sexton token create")
    return Presented(match[1], match[2])


def digest(secret: str) -> str:
    """Return the stored digest of a secret. A slower hash adds no safety: the secret has 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def verdict(token: Token | None, stored: str, sent: Presented, now: int) -> Token | Unauthenticated:
    """Return the token if its secret was sent and it is neither revoked nor expired. Compare in constant time.

    Otherwise: one message for an unknown token and a wrong secret; with the right secret, the message says why the
    token is no longer valid.
    """
    secret_matches = hmac.compare_digest(stored.encode(), digest(sent.secret).encode())
    if token is None or not secret_matches:
        return Unauthenticated("this token is not known; make one: sexton token create")
    remedy = "make another: sexton token create"
    if token.revoked_at is not None:
        return Unauthenticated(f"token {token.id} is revoked; {remedy}", token.name)
    if now >= token.expires_at:
        return Unauthenticated(f"token {token.id} has expired; {remedy}", token.name)
    if token.scope.grant is Grant.UNREADABLE:
        message = f"the scope of token {token.id} cannot be read, so it permits nothing; {remedy}"
        return Unauthenticated(message, token.name)
    return token


def is_use_due(token: Token, now: int) -> bool:
    """Return whether a use of the token is stored now: at most once a minute, so that most requests write nothing."""
    return token.last_used_at is None or now - token.last_used_at >= USE_INTERVAL_MS


def renewed(token: Token, now: int, days: int) -> Token:
    """Return a token that ends ``days`` from now, and not earlier than before.

    Raises:
        BadInput: it was revoked, has expired, or cannot be read.
    """
    remedy = "make another: sexton token create"
    if token.revoked_at is not None or now >= token.expires_at:
        state = "has expired" if token.revoked_at is None else "is revoked"
        raise BadInput(f"token {token.id} {state} and cannot be renewed; {remedy}")
    if token.scope.grant is Grant.UNREADABLE:
        raise BadInput(f"the scope of token {token.id} cannot be read; revoke it and {remedy}")
    if now + days * DAY_MS < token.expires_at:
        raise BadInput(f"token {token.id} ends later than in {days} days already; to end it: sexton token revoke")
    return token.model_copy(update={"expires_at": now + days * DAY_MS})


def permits(scope_: TokenScope, required: Grant, instance: str) -> bool:
    """Return whether the scope has a grant in an instance; scopes of jobs and nodes have none."""
    step = Grant.OWNER if required is Grant.COMMIT else required
    includes = scope_.grant in LADDER and LADDER.index(scope_.grant) >= LADDER.index(step)
    return covers(scope_, instance) and (includes or scope_.grant is required)


def check(
    scopes: Collection[TokenScope], required: Grant, instance: str, *, job: str | None = None, node: str | None = None
) -> None:
    """Raise ``Forbidden`` unless one of the caller's scopes permits a request.

    The message does not name the instance: a request may name a plan or a check, and the caller does not learn whose.

    ``instance``: that of the request; ``EVERY_INSTANCE``: it belongs to no single one. ``job``, ``node``: what the
    request is about, if any: its own token is accepted too; ``ANY_NODE``: that of each node.
    """
    for scope_ in scopes:
        is_job = scope_.grant is Grant.SYNC and job is not None and runs(scope_.of, job)
        is_node = scope_.grant is Grant.NODE and node in (scope_.of, ANY_NODE)
        if permits(scope_, required, instance) or (covers(scope_, instance) and (is_job or is_node)):
            return
    where = "for every instance" if instance == EVERY_INSTANCE else "for the instance of the request"
    accepted = str(required)
    if job is not None:
        accepted += f", or the job's own (sync:{job.partition(':')[0]})"
    if node is not None:
        accepted += f", or the node's own (node:{'ID' if node in ('', ANY_NODE) else node})"
    raise Forbidden(f"this needs a token of scope {accepted}, {where}; this one has {scopes_text(scopes)}")


def covers(scope_: TokenScope, instance: str) -> bool:
    """Return whether the scope covers an instance; ``EVERY_INSTANCE``: whether it covers all of them."""
    return scope_.instance in (EVERY_INSTANCE, instance)


def check_log(scopes: Collection[TokenScope], required: Grant, instance: str, consumers: Collection[str]) -> None:
    """Raise ``Forbidden`` if a job's token is sent for a log that no operator has registered for the job.

    Only the consumer that is named as the job counts: the job registers its runs itself. ``scopes``: ``check`` has
    accepted them. ``required``: a caller with this grant may read a log that no job has registered. ``consumers``:
    those registered.
    """
    if any(permits(scope_, required, instance) for scope_ in scopes):
        return
    jobs = [scope_.of for scope_ in scopes if scope_.grant is Grant.SYNC and covers(scope_, instance)]
    if not set(jobs) & set(consumers):
        raise Forbidden(
            f"no consumer {', '.join(jobs)} of this log is registered; a token of scope operate@INSTANCE registers it: "
            f"PUT /v1/consumers/{jobs[0] if jobs else 'C'}"
        )


def runs(name: str, job: str) -> bool:
    """Return whether a job is the named one, or a run of it: ``NAME:RUN``."""
    return job == name or job.startswith(f"{name}:")


def token_id(text: str) -> str:
    """Return the id of a token, from its id or from the whole token, whose secret must not be logged.

    Raises:
        BadInput: it is neither; the message does not repeat it.
    """
    match = re.fullmatch(rf"(?:sxt_)?([0-9a-f]{{{ID_CHARACTERS}}})(?:_\S*)?", text)
    if match is None:
        raise WrongUsage(f"the id of a token has {ID_CHARACTERS} hexadecimal digits; see: sexton token list")
    return match[1]
