"""Answer errors with RFC 9457 problem documents that carry the error's code and repeat no value that was sent.

An unexpected error is answered with one sentence without detail; its traceback is in the log.
"""

import logging
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from sexton.check.port import UnknownCheck, UnknownFinding
from sexton.contract import Collected, Refused
from sexton.database.engine import AWAY, BROKEN, NOT_HELD, first_line
from sexton.database.guard import UnknownInstance
from sexton.interfaces.api.errors import BodyTooLarge, OtherChange
from sexton.interfaces.api.pools import Pools
from sexton.kernel.errors import BadInput, SextonError, code_of
from sexton.operations.problems import ProblemDocument
from sexton.operators.access.errors import (
    Forbidden,
    Unauthenticated,
    UnknownToken,
)
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.operators.holds.store import TooLate, UnknownHold
from sexton.owners.port import RecordConflict, RecordMissing
from sexton.protection.errors import Exists, MaxCount, ProtectionNotFound, SoftDeleted
from sexton.recycle.audit.model import AuditEnded, AuditUnreadable
from sexton.recycle.errors import NotQuarantined, PlanRefused, RoundEnded, Unconfirmed, UnknownPlan, UnknownRound
from sexton.replication.errors import (
    BootTooHigh,
    FollowerAhead,
    JournalTrimmed,
    LastCopy,
    OutOfOrder,
    RecordsTrimmed,
    TooManyRuns,
    UnknownBackend,
    UnknownConsumer,
    UnknownFollower,
    UnknownLog,
    UnknownTablet,
)
from sexton.runtime.temporal.control_client import AlreadyRunning, NotRunning
from sexton.storage.port import UnknownVault, VaultFault
from sexton.wal.port import (
    EpochTooHigh,
    OldEpoch,
    OldMap,
    PinEnded,
    RegionOfAnotherNode,
    ReplayRefused,
    TooManyRegions,
    TooManyReplays,
    TopicOfAnotherInstance,
    UnknownRegion,
    UnknownTopic,
)

log = logging.getLogger(__name__)
_FIELD = re.compile("[a-z]+(_[a-z]+){0,4}")
"""A name of a field, however mistyped."""

REFUSALS = (SextonError, *AWAY)
"""Errors with a sentence for the caller: those of Sexton, and those of an unreachable database."""
MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
READING = ("GET", "HEAD")
"""Methods whose refusals are logged only if the token does not permit the request."""
STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (RegionOfAnotherNode, 403),
    (TopicOfAnotherInstance, 403),
    (ProtectionNotFound, 404),
    (UnknownCheck, 404),
    (UnknownFinding, 404),
    (UnknownInstance, 404),
    (UnknownVault, 404),
    (UnknownTopic, 404),
    (UnknownRegion, 404),
    (UnknownLog, 404),
    (UnknownConsumer, 404),
    (UnknownFollower, 404),
    (UnknownTablet, 404),
    (UnknownBackend, 404),
    (RecordMissing, 404),
    (UnknownHold, 404),
    (UnknownPlan, 404),
    (UnknownRound, 404),
    (UnknownToken, 404),
    (Exists, 409),
    (SoftDeleted, 409),
    (PlanRefused, 409),
    (TooLate, 409),
    (NotQuarantined, 409),
    (Unconfirmed, 409),
    (AlreadyRunning, 409),
    (NotRunning, 409),
    (RoundEnded, 409),
    (OtherChange, 409),
    (NotEnabled, 409),
    (Halted, 409),
    (OldMap, 409),
    (OldEpoch, 409),
    (EpochTooHigh, 409),
    (ReplayRefused, 409),
    (OutOfOrder, 409),
    (LastCopy, 409),
    (BootTooHigh, 409),
    (FollowerAhead, 409),
    (RecordConflict, 409),
    (Collected, 409),
    (Refused, 409),
    (PinEnded, 410),
    (AuditEnded, 410),
    (RecordsTrimmed, 410),
    (JournalTrimmed, 410),
    (BodyTooLarge, 413),
    (MaxCount, 429),
    (TooManyRegions, 429),
    (TooManyReplays, 429),
    (TooManyRuns, 429),
    (VaultFault, 503),
    (AuditUnreadable, 503),
    (BadInput, 422),
)
"""The first match decides. An error that passes by itself is 503, any other error without a match is 400."""


def install(app: FastAPI) -> None:
    """Answer every error of an application with a problem document."""
    app.add_exception_handler(Exception, _answer)
    for kind in (*REFUSALS, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _answer)


async def _answer(request: Request, error: Exception) -> JSONResponse:
    await log_refusal(error, request)
    return answer(error, request)


async def log_refusal(error: Exception, request: Request) -> None:
    """Log that a request which would have changed something, or was forbidden, was refused."""
    caller = getattr(request.state, "caller", None)
    if caller is not None and (isinstance(error, Forbidden) or request.method not in READING):
        template = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
        pools: Pools = request.app.state.pools
        await pools.refusals.run(caller.log_refusal, template, problem(error).code)


def answer(error: Exception, request: HTTPConnection) -> JSONResponse:
    """Return the answer to an error of a request; log an unexpected error."""
    document = problem(error)
    log_failure(error, request, document)
    headers = {"Cache-Control": "no-store"}
    if document.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if document.status == 503:
        headers["Retry-After"] = str(RETRY_SECONDS)
    return JSONResponse(document.model_dump(exclude_none=True), document.status, headers, MEDIA_TYPE)


def log_failure(error: Exception, request: HTTPConnection, document: ProblemDocument) -> None:
    """Log an unexpected error with its traceback, and an unreachable database in one line."""
    if document.status == 500:
        log.error("%r failed", f"{request.scope['method']} {request.url.path}", exc_info=error)
    elif isinstance(error, AWAY):
        log.warning("%r was not answered: %s", f"{request.scope['method']} {request.url.path}", first_line(error))


def problem(error: Exception) -> ProblemDocument:
    """Return the problem document of an error."""
    if isinstance(error, SextonError):
        document = _document(code_of(error), status(error), str(error), getattr(error, "code", None))
        return document.model_copy(update={"first": getattr(error, "first", None)})
    if isinstance(error, RequestValidationError):
        return _document("INVALID_REQUEST", 422, _validation_detail(error))
    if isinstance(error, HTTPException):
        return _document(f"HTTP_{error.status_code}", error.status_code, str(error.detail))
    if isinstance(error, NOT_HELD):
        return _document("BAD_INPUT", 422, "the database cannot store this: a text is too long, or a number too large")
    if isinstance(error, AWAY) and not isinstance(error, BROKEN):
        return _document("DATABASE_AWAY", 503, "the database is unreachable or busy; try again; see: sexton doctor")
    return _document("FAILED", 500, "unexpected error; the API's log has the traceback")


def status(error: SextonError) -> int:
    """Return the HTTP status of a refusal."""
    if error.passes:
        return 503
    return next((code for kind, code in STATUS if isinstance(error, kind)), 400)


def _document(code: str, status_: int, detail: str, number: int | None = None) -> ProblemDocument:
    title = code.replace("_", " ").capitalize()
    return ProblemDocument(
        type=f"urn:sexton:problem:{code}", title=title, status=status_, detail=detail, code=code, number=number
    )


def _validation_detail(error: RequestValidationError) -> str:
    """Return the first ten mistakes and their places, without the values: one may be a secret in the wrong place."""
    return "; ".join(f"{_location(mistake)}: {mistake['msg']}" for mistake in error.errors()[:10])


def _location(mistake: dict[str, Any]) -> str:
    """Return the place of a mistake; an unknown field is named only if its name cannot be a token."""
    location = mistake["loc"]
    if mistake["type"] == "extra_forbidden" and not _FIELD.fullmatch(str(location[-1])):
        location = location[:-1]
    return ".".join(str(part)[:100] for part in location)
