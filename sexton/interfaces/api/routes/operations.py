"""The routes of the operations that ``sexton.operations`` declares, and of those that owners offer on their records."""

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.api.pools import long, reserved
from sexton.kernel.errors import BadInput
from sexton.operations.fields import MAX_ITEMS_BYTES, Instance
from sexton.operations.registry import Call, Logged, Operation, operations
from sexton.operators.access.model import Grant
from sexton.owners.plugin import OwnerOperation
from sexton.runtime import owner_operations

NO_CONTENT = 204


def router() -> APIRouter:
    """Return the routes."""
    routes = APIRouter(route_class=GuardedRoute)
    of_owners = [_of_owner(owner, each) for owner, all_ in owner_operations.operations().items() for each in all_]
    for operation in (*operations().values(), *of_owners):
        record = operation.record
        for number, path in enumerate(operation.paths):
            endpoint = _endpoint(operation, path)
            endpoint = reserved(endpoint) if record.reserved else long(endpoint) if record.long else endpoint
            has_result = operation.result is not None
            routes.add_api_route(
                path,
                endpoint,
                methods=[operation.method],
                response_model=operation.result if has_result else None,
                status_code=200 if has_result else NO_CONTENT,
                name=f"{operation.name} {number + 1}" if number else operation.name,
                description=operation.about.partition("\n\nExample:")[0],
                max_body_size=MAX_ITEMS_BYTES if operation.is_large else None,
            )
    return routes


def _of_owner(owner: str, offered: OwnerOperation) -> Operation:
    """Return an owner's operation as one of Sexton. Its order is the whole body, or the query of one that reads."""

    def run(call: Call, instance: str, **given: Any) -> Any:
        try:
            order = given.get("order") or offered.order(**given)
        except ValidationError as e:
            mistakes = (f"{'.'.join(map(str, m['loc']))}: {m['msg']}" for m in e.errors(include_input=False))
            raise BadInput("; ".join(mistakes)) from None
        return owner_operations.run(call.deployment, owner, offered, instance, order)

    values: dict[str, tuple[Any, Any]] = {"order": (offered.order, Parameter.empty)}
    if offered.reads or not offered.order.model_fields:
        values = {
            name: (
                Annotated[(f.annotation, *f.metadata)] if f.metadata else f.annotation,
                Parameter.empty if f.is_required() else f.get_default(call_default_factory=True),
            )
            for name, f in offered.order.model_fields.items()
        }
    parameters = [
        Parameter("call", Parameter.POSITIONAL_OR_KEYWORD),
        Parameter("instance", Parameter.KEYWORD_ONLY, annotation=Instance),
    ]
    parameters += [
        Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=default)
        for name, (kind, default) in values.items()
    ]
    result = None if offered.result is type(None) else offered.result
    run.__signature__ = Signature(parameters, return_annotation=result)  # type: ignore[attr-defined]
    run.__doc__ = offered.about
    record = Logged(lambda order=None, **_: owner_operations.subject(order) if order else "", changes=not offered.reads)
    path = f"/v1/instances/{{instance}}/{owner}/{offered.name}"
    method, grant = ("GET", Grant.READ) if offered.reads else ("POST", Grant.OWNER)
    return Operation(f"{owner} {offered.name}", grant, method, (path,), record, False, True, run)


def _endpoint(operation: Operation, path: str) -> Callable[..., Any]:
    """Return the function of a route: parts of the path, the query and the body are the values of its order."""

    def call(
        response: Response, service: Service, caller: CurrentCaller, body: BaseModel | None = None, **values: Any
    ) -> Any:
        if operation.model:
            values[operation.model] = body
        elif body is not None:
            values |= {name: getattr(body, name) for name in type(body).model_fields}
        response.headers["Cache-Control"] = "no-store"
        return operation.run(Call(service, caller), values)

    fixed = {"response": Response, "service": Service, "caller": CurrentCaller}
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in fixed.items()]
    in_path, in_query = operation.path_names(path), operation.query_names(path)
    for name, parameter in operation.parameters.items():
        given = parameter.replace(kind=Parameter.KEYWORD_ONLY)
        if name in in_path:
            parameters.append(given.replace(default=Parameter.empty))
        elif name in in_query:
            default = None if operation.covers and name == "instance" else parameter.default
            kind = parameter.annotation | None if default is None else parameter.annotation
            parameters.append(
                given.replace(annotation=Annotated[kind, Query(description=_about(kind))], default=default)
            )
    if (model := operation.body) is not None:
        is_optional = not operation.model and not any(f.is_required() for f in model.model_fields.values())
        annotation, default = (model | None, None) if is_optional else (model, Parameter.empty)
        parameters.append(Parameter("body", Parameter.KEYWORD_ONLY, annotation=annotation, default=default))
    call.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return call


def _about(kind: Any) -> str | None:
    """Return the description in a type's metadata."""
    texts = [part.description for part in get_args(kind) if isinstance(part, FieldInfo) and part.description]
    inner = [_about(part) for part in get_args(kind) if get_args(part)]
    return next((text for text in (*reversed(texts), *inner) if text), None)
