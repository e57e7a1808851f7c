"""Read the body of each request within its limit, give it a place, and refuse unknown parameters of changes."""

from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from sexton.interfaces.api.pools import Pools, is_reserved
from sexton.interfaces.api.problems import BodyTooLarge
from sexton.operations.fields import MAX_BODY_BYTES

SMALL_BYTES = 64 << 10
"""A larger body is parsed in a thread, and has one of a few places: it needs many times its size of memory."""


class GuardedRoute(APIRoute):
    """A route whose body is read before its request takes a place: a slow sender holds none.

    Only a body that may be large has a place while it is read. A reserved request waits for none: its body is
    small.
    """

    def __init__(
        self, path: str, endpoint: Callable[..., Any], *, max_body_size: int | None = None, **named: Any
    ) -> None:
        # Not FastAPI's limit: it hides every other refusal of a request whose body is too large, also 401 and 403.
        limit = MAX_BODY_BYTES if max_body_size is None else max_body_size
        self._max_body_bytes = min(limit, SMALL_BYTES) if is_reserved(endpoint) else limit
        super().__init__(path, endpoint, **named)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI within the limits."""
        handle = super().get_route_handler()
        kind: Any = self.body_field and self.body_field.field_info.annotation
        adapter = kind and TypeAdapter[Any](kind)
        known = _query_names(self.dependant)

        async def guarded(request: Request) -> Response:
            if unknown := request.query_params.keys() - known:
                # FastAPI ignores them: a mistyped ``instance`` of a setting, or of a list, would mean all instances
                mistake = {"type": "extra_forbidden", "msg": "Extra parameters are not permitted"}
                raise RequestValidationError([mistake | {"loc": ("query", name)} for name in sorted(unknown)])
            pools: Pools = request.app.state.pools
            async with AsyncExitStack() as places:
                if adapter is not None:
                    length = stated_length(request)
                    if self._max_body_bytes > SMALL_BYTES and (length is None or length > SMALL_BYTES):
                        await places.enter_async_context(pools.large_bodies)
                    try:
                        body = await read_body(request, self._max_body_bytes)
                    except ClientDisconnect:
                        return Response(status_code=400)  # no client reads it
                    request = _GuardedRequest(request.scope, request.receive, body, adapter)
                await places.enter_async_context(pools.place(self.endpoint))
                try:
                    return await handle(request)
                except HTTPException as e:  # FastAPI raises this instead of any error of ``json()``
                    if isinstance(e.__cause__, RequestValidationError):
                        raise e.__cause__ from None
                    raise

        return guarded


class _GuardedRequest(Request):
    """A request whose body has arrived. ``json()`` returns a large body validated, which FastAPI accepts as it is."""

    def __init__(self, scope: Scope, receive: Receive, body: bytes, adapter: TypeAdapter[Any]) -> None:
        super().__init__(scope, receive)
        self._body, self._adapter = body, adapter

    async def json(self) -> Any:
        if len(self._body) <= SMALL_BYTES:
            return await super().json()
        pools: Pools = self.app.state.pools
        return await pools.parser.run(validated, self._body, self._adapter)


def _query_names(dependant: Dependant) -> set[str]:
    """Return the names of the query's parameters that a route and its dependencies take."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*(_query_names(inner) for inner in dependant.dependencies))


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


def validated(body: bytes, adapter: TypeAdapter[Any]) -> Any:
    """Return the validated value of a body in JSON, or raise ``RequestValidationError``."""
    try:
        return adapter.validate_json(body)
    except ValidationError as e:
        mistakes = e.errors(include_url=False, include_context=False, include_input=False)
        raise RequestValidationError([dict(m) | {"loc": ("body", *m["loc"])} for m in mistakes]) from None
