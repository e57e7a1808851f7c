"""Read the body of a request up to the limit of its route, and validate it."""

from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request

from sexton.interfaces.api.problems import BodyTooLarge

SMALL_BYTES = 64 << 10
"""A larger body is parsed in a thread, and has one of a few places: it needs many times its size of memory."""


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body. Raise ``BodyTooLarge`` above ``limit`` bytes, as soon as that is known."""
    if (stated_length(request) or 0) > limit:
        raise BodyTooLarge(limit)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > limit:
            raise BodyTooLarge(limit)
    return bytes(body)


def stated_length(request: Request) -> int | None:
    """Return the length of the body as its head states it; None: it states none, because the body comes in chunks."""
    if "transfer-encoding" in request.headers:
        return None
    length = request.headers.get("content-length", "0")
    return int(length) if length.isdecimal() else None


def may_be_large(request: Request, limit: int) -> bool:
    """Return whether the body, of at most ``limit`` bytes, may be larger than ``SMALL_BYTES``."""
    length = stated_length(request)
    return limit > SMALL_BYTES and (length is None or length > SMALL_BYTES)


def validated(body: bytes, adapter: TypeAdapter[Any]) -> Any:
    """Return the validated value of a body in JSON, or raise ``RequestValidationError``."""
    try:
        return adapter.validate_json(body)
    except ValidationError as e:
        mistakes = e.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([dict(m) | {"loc": ("body", *m["loc"])} for m in mistakes]) from None
