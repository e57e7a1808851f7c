"""Run each request in its lane, and parse a large body in a thread."""

import time
from asyncio import sleep
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from inspect import iscoroutinefunction
from typing import Any, cast

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope

from sexton.interfaces.api.lanes import Lanes, RequestLane, is_reserved
from sexton.interfaces.api.parsing import SMALL_BYTES, parse


class GuardedRoute(APIRoute):
    """A route whose body is read before its request takes a place: a slow sender holds none."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI within the limits."""
        handle = super().get_route_handler()
        adapter = TypeAdapter[Any](cast(Any, self.body_field.field_info.annotation)) if self.body_field else None

        async def guarded(request: Request) -> Response:
            lanes: Lanes = request.app.state.lanes
            sender = _sender(request)
            async with AsyncExitStack() as places:
                if adapter is not None:
                    if _may_be_large(request) and not is_reserved(self.endpoint):
                        await places.enter_async_context(lanes.large_bodies.place(sender))
                    request = _GuardedRequest(request.scope, request.receive, adapter, sender)
                    try:
                        await request.body()
                    except ClientDisconnect:
                        return Response(status_code=400)  # no client reads it
                await places.enter_async_context(self._lane(lanes).place(sender))
                return await _handle(handle, request)

        return guarded

    def _lane(self, lanes: Lanes) -> RequestLane:
        """Return the lane of the endpoint. A coroutine is a long poll: it needs no thread while it waits."""
        if is_reserved(self.endpoint):
            return lanes.reserved
        return lanes.long_polls if iscoroutinefunction(self.endpoint) else lanes.ordinary


class _GuardedRequest(Request):
    """A request whose ``json()`` returns the validated body if it is large. FastAPI accepts that as it is."""

    def __init__(self, scope: Scope, receive: Receive, adapter: TypeAdapter[Any], sender: str) -> None:
        super().__init__(scope, receive)
        self._adapter, self._sender = adapter, sender
        self.refusal: Exception | None = None

    async def json(self) -> Any:
        body = await self.body()
        if len(body) <= SMALL_BYTES:
            return await super().json()
        lanes: Lanes = self.app.state.lanes
        async with lanes.parser.place(self._sender):
            began = time.monotonic()
            try:
                return await lanes.parser_threads.run(parse, body, self._adapter)
            except Exception as e:
                self.refusal = e
                raise
            finally:
                # Parsing holds Python's lock. For as long again, no other body is parsed and all other requests run.
                await sleep(time.monotonic() - began)


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


def _may_be_large(request: Request) -> bool:
    length = request.headers.get("content-length", "")
    return "transfer-encoding" in request.headers or (length.isdigit() and int(length) > SMALL_BYTES)
