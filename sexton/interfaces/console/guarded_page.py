"""Give each request of a browser a place, after its session and the token of its form were verified.

The modules of ``routes`` add their pages to ``pages``.
"""

from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from sexton.interfaces.api.authentication import TokenVerifier
from sexton.interfaces.api.caller import current_caller
from sexton.interfaces.api.guarded_route import SMALL_BYTES, read_body
from sexton.interfaces.api.pools import Pools
from sexton.interfaces.console import session
from sexton.kernel.errors import BadInput
from sexton.operators.access.model import Unauthenticated

MAX_FIELDS = 50
LOGIN = f"{session.PATH}/login"
"""The only path that needs no session."""


class GuardedPage(APIRoute):
    """A page, or an action of a form. A form is read before its request takes a place."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of FastAPI within the limits."""
        handle = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            pools: Pools = request.app.state.pools
            if self.path != LOGIN:
                verifier: TokenVerifier = request.app.state.verifier
                token = session.session_of(request).token
                if not token:
                    raise Unauthenticated("log in first")
                request.state.identity = await verifier.authenticate(f"Bearer {token}")
                await current_caller(request)
            if request.method == "POST":
                try:
                    request.state.form = await _form(request)
                except ClientDisconnect:
                    return Response(status_code=400)
                session.check_form(request, request.state.form.get(session.FORM_FIELD, ""))
            async with pools.place(self.endpoint):
                return await handle(request)

        return guarded


pages = APIRouter(prefix=session.PATH, route_class=GuardedPage)
TYPED = frozenset(
    {"reason", "note", "token", "days", "seconds", "rate", "objects", "typed", "scope", "value", "name"}
    | {"vault", "instance"}
)
"""Fields whose blanks around a text mean nothing, besides those of every form that sends an operation.

Others name something: `` old/`` is another prefix than ``old/``.
"""


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form. Raise ``BadInput`` or ``BodyTooLarge`` for what no page of the console sends."""
    body = await read_body(request, SMALL_BYTES)
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError:  # not UTF-8, or too many
        raise BadInput("this is no form of the console") from None
    if any("\0" in value for _, value in fields):
        raise BadInput("a NUL is part of no name")
    is_typed = f"{session.PATH}/do/" in request.url.path
    return {name: value.strip() if is_typed or name in TYPED else value for name, value in fields}
