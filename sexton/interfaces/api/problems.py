"""Answer errors with RFC 9457 problem documents that carry the error's code and repeat no value that was sent.

An unexpected error is answered with one sentence without detail; its traceback is in the log.
"""

import logging
import re

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from sexton.database.engine import AWAY, BROKEN, NOT_HELD, first_line
from sexton.interfaces.api.pools import Pools
from sexton.kernel.errors import BadInput, Conflict, Ended, NotFound, SextonError, TooMany, code_of
from sexton.operations.fields import ProblemDocument
from sexton.operators.access.model import Forbidden, Unauthenticated
from sexton.recycle.audit.model import AuditUnreadable
from sexton.storage.port import VaultFault
from sexton.wal.port import RegionOfAnotherNode, TopicOfAnotherInstance

log = logging.getLogger(__name__)
_FIELD = re.compile("[a-z]+(_[a-z]+){0,4}")
"""A name of a field, however mistyped."""

REFUSALS = (SextonError, *AWAY)
"""Errors with a sentence for the caller: those of Sexton, and those of an unreachable database."""
MEDIA_TYPE = "application/problem+json"
RETRY_SECONDS = 5
READING = ("GET", "HEAD")
"""Methods whose refusals are logged only if the token does not permit the request."""


class BodyTooLarge(SextonError):
    """A body has more bytes than its route accepts."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the body is too large: this request may have {limit:,} bytes")


class OtherChange(Conflict):
    """What an operator agreed to is something else by now than the page said."""


STATUS: tuple[tuple[type[Exception], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (RegionOfAnotherNode, 403),
    (TopicOfAnotherInstance, 403),
    (NotFound, 404),
    (Conflict, 409),
    (Ended, 410),
    (BodyTooLarge, 413),
    (TooMany, 429),
    (VaultFault, 503),
    (AuditUnreadable, 503),
    (BadInput, 422),
)
"""The first match decides. An error that passes by itself is 503, any other error without a match is 400."""


def install(app: FastAPI) -> None:
    """Answer every error of an application with a problem document."""

    async def handle(request: Request, error: Exception) -> JSONResponse:
        await log_refusal(error, request)
        return answer(error, request)

    for kind in (Exception, *REFUSALS, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, handle)


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
        more = {"number": getattr(error, "code", None), "first": getattr(error, "first", None)}
        return _document(code_of(error), status(error), str(error), **more)
    if isinstance(error, RequestValidationError):
        mistakes = list[str]()
        for mistake in error.errors()[:10]:  # without the values: one may be a secret in the wrong place
            location = mistake["loc"]
            if mistake["type"] == "extra_forbidden" and not _FIELD.fullmatch(str(location[-1])):
                location = location[:-1]  # an unknown field is named only if its name cannot be a token
            mistakes.append(f"{'.'.join(str(part)[:100] for part in location)}: {mistake['msg']}")
        return _document("INVALID_REQUEST", 422, "; ".join(mistakes))
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


def _document(code: str, status_: int, detail: str, **more: int | None) -> ProblemDocument:
    title = code.replace("_", " ").capitalize()
    kind = f"urn:sexton:problem:{code}"
    return ProblemDocument(type=kind, title=title, status=status_, detail=detail, code=code, **more)
