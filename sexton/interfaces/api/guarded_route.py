"""Run each request in its lane, parse a large body in a thread, and refuse unknown parameters of changes."""

import time
from asyncio import sleep
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from sexton.interfaces.api.errors import BodyTooLarge
from sexton.interfaces.api.lanes import Lanes, is_reserved
from sexton.interfaces.api.large_bodies import receive
from sexton.interfaces.api.parsing import SMALL_BYTES, BodyValidator, load, parse, stated_length
from sexton.interfaces.api.problems import READING
from sexton.protocol.body import MAX_BODY_BYTES


class GuardedRoute(APIRoute):
    """A route whose body is read before its request takes a place: a slow sender holds none.

    Only a body that may be large has a place while it is read. A reserved request never has one, so its body is small.
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
        validator = BodyValidator(self.body_field.field_info.annotation) if self.body_field else None
        known = _query_names(self.dependant)

        async def guarded(request: Request) -> Response:
            if request.method not in READING and (unknown := request.query_params.keys() - known):
                # FastAPI ignores them: a mistyped ``instance`` of a setting would mean all instances
                raise RequestValidationError([_unknown_parameter(name) for name in sorted(unknown)])
            lanes: Lanes = request.app.state.lanes
            sender = _sender(request)
            async with AsyncExitStack() as places:
                if validator is not None:
                    try:
                        body = await self._receive_body(request, places, sender)
                    except ClientDisconnect:
                        return Response(status_code=400)  # no client reads it
                    request = _GuardedRequest(request.scope, request.receive, body, validator, sender)
                await places.enter_async_context(
                    lanes.of(self.endpoint, getattr(request.state, "identity", None)).place(sender)
                )
                return await _handle(handle, request)

        return guarded

    async def _receive_body(self, request: Request, places: AsyncExitStack, sender: str) -> bytes:
        limit, length = self._max_body_bytes, stated_length(request)
        if length is not None and length > limit:
            raise BodyTooLarge(limit)
        if limit <= SMALL_BYTES or (length is not None and length <= SMALL_BYTES):
            return await receive(request.stream(), limit)
        lanes: Lanes = request.app.state.lanes
        place = await places.enter_async_context(lanes.large_bodies.place(sender))
        return await place.receive(request.stream(), limit)


class _GuardedRequest(Request):
    """A request whose body has arrived. ``json()`` returns a large body validated, which FastAPI accepts as it is."""

    def __init__(self, scope: Scope, receive_: Receive, body: bytes, validator: BodyValidator, sender: str) -> None:
        super().__init__(scope, receive_)
        self._whole_body, self._validator, self._sender = body, validator, sender
        self.refusal: Exception | None = None

    async def body(self) -> bytes:
        return self._whole_body

    async def json(self) -> Any:
        try:
            if len(self._whole_body) <= SMALL_BYTES:
                return load(self._whole_body)
            return await self._parsed()
        except Exception as e:
            self.refusal = e
            raise

    async def _parsed(self) -> Any:
        lanes: Lanes = self.app.state.lanes
        async with lanes.parser.place(self._sender):
            began = time.monotonic()
            try:
                return await lanes.parser_threads.run(parse, self._whole_body, self._validator)
            finally:
                # Parsing holds Python's lock. For as long again, no other body is parsed and all other requests run.
                await sleep(time.monotonic() - began)


def _query_names(dependant: Dependant) -> set[str]:
    """Return the names of the query's parameters that a route and its dependencies take."""
    own = {parameter.alias for parameter in dependant.query_params}
    return own.union(*(_query_names(inner) for inner in dependant.dependencies))


def _unknown_parameter(name: str) -> dict[str, object]:
    return {"type": "extra_forbidden", "loc": ("query", name), "msg": "Extra parameters are not permitted"}


async def _handle(handle: Callable[[Request], Coroutine[Any, Any, Response]], request: Request) -> Response:
    try:
        return await handle(request)
    except HTTPException:  # FastAPI raises this instead of any error of ``json()``
        if isinstance(request, _GuardedRequest) and request.refusal is not None:
            raise request.refusal from None
        raise


def _sender(request: Request) -> str:
    """Return who shares the places: a token's requests, or those of an address without one."""
    caller = getattr(request.state, "identity", None)
    if caller is not None:
        return str(caller.name)
    return request.client.host if request.client else ""
