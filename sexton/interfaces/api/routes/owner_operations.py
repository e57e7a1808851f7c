"""Operations of owners whose records Sexton keeps: one route for each; see ``sexton.owners.plugin.OwnerOperation``.

Those that read are sent with GET, and take their values from the query.
"""

from collections.abc import Callable, Iterator
from inspect import Parameter, signature
from typing import Annotated, Any

from fastapi import APIRouter, Query

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.kernel.message import Message
from sexton.operations.callers import Deed
from sexton.operators.access.model import Grant
from sexton.owners.plugin import OwnerOperation
from sexton.runtime import owner_operations

NO_CONTENT = 204


def router() -> APIRouter:
    """Return the routes of the installed owners."""
    routes = APIRouter(prefix="/v1/instances/{instance}", route_class=GuardedRoute)
    for owner, operation in _offered():
        has_result = operation.result not in (None, type(None))
        routes.add_api_route(
            f"/{owner}/{operation.name}",
            _endpoint(owner, operation),
            methods=["GET" if operation.reads else "POST"],
            response_model=operation.result if has_result else None,
            status_code=200 if has_result else NO_CONTENT,
            name=f"{owner} {operation.name}",
            description=operation.about,
        )
    return routes


def _offered() -> Iterator[tuple[str, OwnerOperation]]:
    for owner, offered in owner_operations.operations().items():
        for operation in offered:
            yield owner, operation


def _endpoint(owner: str, operation: OwnerOperation) -> Callable[..., Any]:
    """Return the function of a route. Its order is the body, or the query."""

    def call(instance: str, service: Service, caller: CurrentCaller, body: Message | None = None) -> Any:
        order = operation.order() if body is None else body
        if operation.reads:
            caller.require(Grant.READ, instance)
            return owner_operations.run(service, owner, operation, instance, order)
        deed = Deed(f"{owner} {operation.name}", instance, Grant.OWNER, owner_operations.subject(order))
        with caller.recorded(deed):
            return owner_operations.run(service, owner, operation, instance, order)

    parameters = dict(signature(call).parameters)
    body = parameters.pop("body")
    order = operation.order
    if operation.reads:
        parameters["body"] = body.replace(annotation=Annotated[order, Query()], default=Parameter.empty)
    elif order.model_fields:
        parameters["body"] = body.replace(annotation=order, default=Parameter.empty)
    else:  # it may have an empty body
        parameters["body"] = body.replace(annotation=order | None)
    call.__signature__ = signature(call).replace(parameters=list(parameters.values()))  # type: ignore[attr-defined]
    return call
