"""The routes of the operations that ``sexton.operations`` declares."""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import reserved
from sexton.operations.registry import READING, Operation, operations


def router() -> APIRouter:
    """Return the routes."""
    routes = APIRouter(route_class=GuardedRoute)
    for operation in operations().values():
        endpoint = _endpoint(operation)
        routes.add_api_route(
            operation.path,
            reserved(endpoint) if operation.record.keeps else endpoint,
            methods=[operation.method],
            response_model=operation.result,
            name=operation.name,
            description=operation.about.partition("\n")[0],
        )
    return routes


def _endpoint(operation: Operation) -> Callable[..., Any]:
    """Return the function of a route: parts of the path, and a body or a query, are the values of its order."""

    def call(
        response: Response, service: Service, caller: CurrentCaller, body: BaseModel | None = None, **values: Any
    ) -> Any:
        if body is not None:
            values |= {name: getattr(body, name) for name in type(body).model_fields}
        response.headers["Cache-Control"] = "no-store"
        return operation.run(service, caller, values)

    fixed = {"response": Response, "service": Service, "caller": CurrentCaller}
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in fixed.items()]
    for name, parameter in operation.parameters.items():
        if name in operation.path_names or operation.method == READING:
            kind = parameter.annotation if name in operation.path_names else Annotated[parameter.annotation, Query()]
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=kind))
    if operation.body is not None:
        parameters.append(Parameter("body", Parameter.KEYWORD_ONLY, annotation=operation.body))
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call
