"""Do a request with an ``Idempotency-Key`` once, and answer its repetitions as the first."""

import hashlib
import re
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool

from sexton.kernel.errors import BadInput, SextonError
from sexton.operators.access.errors import UnknownOutcome
from sexton.operators.access.sql.answers import AnswerStore, KeyedRequest, StoredAnswer

HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replay"
MAX_BODY_BYTES, NO_CONTENT = 64 << 10, 204
_KEY = re.compile(r"[\x21-\x7e]{1,200}")
_ONCE = "sexton_shown_once"


def shown_once(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    """Mark an endpoint whose answer has a secret: it is not stored, and no repetition receives it."""
    setattr(endpoint, _ONCE, True)
    return endpoint


async def once(
    request: Request, body: bytes, endpoint: Callable[..., Any], handle: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Answer a request, and a repetition of it for a day with the same answer.

    Raises:
        BadInput: the key is no printable text of up to 200 characters.
        KeyOfAnotherRequest, TooManyKeys, UnknownOutcome: see ``AnswerStore``.
    """
    answers: AnswerStore = request.app.state.service.stores.answers
    keyed = _keyed(request, body)
    earlier = await run_in_threadpool(answers.begin, keyed)
    if earlier is not None:
        if earlier.body is None and earlier.status != NO_CONTENT:
            raise UnknownOutcome("this request was done, and its answer is not kept: it was shown once")
        headers = {REPLAYED: "true", "Cache-Control": "no-store"}
        return Response(earlier.body, earlier.status, headers, "application/json" if earlier.body else None)
    try:
        answer = await handle(request)
    except (SextonError, HTTPException, RequestValidationError) as e:  # after any other error it may have been done
        if not getattr(e, "in_doubt", False):
            await run_in_threadpool(answers.forget, keyed)
        raise
    sent = bytes(getattr(answer, "body", b""))
    is_stored = 0 < len(sent) <= MAX_BODY_BYTES and not getattr(endpoint, _ONCE, False)
    await run_in_threadpool(answers.end, keyed, StoredAnswer(answer.status_code, sent.decode() if is_stored else None))
    return answer


def _keyed(request: Request, body: bytes) -> KeyedRequest:
    key = request.headers[HEADER]
    if not _KEY.fullmatch(key):
        raise BadInput(f"{HEADER} is 1 to 200 printable characters without spaces, such as a UUID")
    content = "\0".join((request.method, request.url.path, request.url.query)).encode() + b"\0" + body
    identity = request.state.identity
    scopes = ", ".join(sorted(map(str, identity.scopes))).encode()
    digests = [hashlib.sha256(part).hexdigest()[:32] for part in (content, scopes)]
    return KeyedRequest(identity.user or identity.name, key, "".join(digests))
