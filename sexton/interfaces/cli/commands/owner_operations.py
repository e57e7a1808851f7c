"""`sexton OWNER …`: do something with the records of an owner that keeps them in Sexton's database."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, get_origin

import typer

from sexton.interfaces.cli.context import log_call, open_database
from sexton.interfaces.cli.output import emit_object, show_table
from sexton.kernel.errors import WrongUsage

if TYPE_CHECKING:
    from sexton.kernel.message import Message
    from sexton.owners.plugin import OwnerOperation

OWNER = "catalog"
InstanceName = Annotated[str, typer.Argument(metavar="INSTANCE", help="The instance.")]
OperationName = Annotated[
    str | None, typer.Argument(metavar="OPERATION", help="What to do; default: print the operations.")
]
Values = Annotated[
    list[str] | None,
    typer.Argument(metavar="VALUE", help="NAME=VALUE; lists and mappings in JSON, or a name several times."),
]


def catalog(instance: InstanceName, operation: OperationName = None, values: Values = None) -> None:
    """Read or change what owner catalog keeps in Sexton's database: tables, loads, drops.

    Without an operation it prints all of them, with their values. Every change is recorded in sexton log.

    Example: sexton catalog shop drop-table table=orders
    """
    from pydantic import BaseModel
    from pydantic_core import to_jsonable_python

    from sexton.interfaces.cli.render.results import cell, show_fields, show_rows
    from sexton.runtime import owner_operations

    offered = owner_operations.operations()[OWNER]
    if operation is None:
        operations = [{"operation": o.name, "values": list(_described(o.order)), "about": o.about} for o in offered]
        emit_object({"result": operations})
        rows = [(o["operation"], " ".join(o["values"]), o["about"]) for o in operations]
        show_table(("operation", "values", "what it does"), rows)
        return
    found = next((o for o in offered if o.name == operation), None)
    if found is None:
        raise WrongUsage(f"owner {OWNER} has no operation {operation}; all of them: sexton {OWNER} {instance}")
    order = _order(found, values or ())
    with open_database() as service:
        run = partial(owner_operations.run, service, OWNER, found, instance, order)
        if found.reads:
            result = run()
        else:
            with log_call(service, f"{OWNER} {operation}", instance, owner_operations.subject(order)):
                result = run()
    emit_object({"result": to_jsonable_python(result)})
    if isinstance(result, BaseModel):
        show_fields(result)
    elif isinstance(result, list | tuple) and result and isinstance(result[0], BaseModel):
        show_rows(result)
    else:
        for value in result if isinstance(result, list | tuple) else ["done" if result is None else result]:
            typer.echo(cell("", value))


def _described(order: "type[Message]") -> Iterator[str]:
    """Yield each value of an order as it is written; one that may be left out in brackets."""
    forms: dict[Any, str] = {int: "N", str: "TEXT", Sequence: "[…]", Mapping: "{…}"}
    for name, field in order.model_fields.items():
        text = f"{name}={forms.get(get_origin(field.annotation) or field.annotation, 'JSON')}"
        yield text if field.is_required() else f"[{text}]"


def _order(operation: "OwnerOperation", values: Sequence[str]) -> "Message":
    """Return the order that words of the command line stand for; ``WrongUsage``: they do not fit."""
    from pydantic import ValidationError

    given: dict[str, Any] = {}
    for word in values:
        name, is_value, text = word.partition("=")
        field = operation.order.model_fields.get(name)
        if not is_value or field is None:
            known = " ".join(_described(operation.order)) or "no values"
            raise WrongUsage(f"{word!r} is no value of {operation.name}; it takes: {known}")
        is_list = get_origin(field.annotation) is Sequence
        if name in given and not is_list:
            raise WrongUsage(f"{name} is given twice; it takes one value")
        is_text = field.annotation is str or (field.annotation == Sequence[str] and not text.startswith("["))
        value: Any = text
        if not is_text:
            with suppress(ValueError, RecursionError):  # a text, if it is not JSON
                value = json.loads(text)
        given[name] = [*given.get(name, ()), *(value if isinstance(value, list) else [value])] if is_list else value
    try:
        return operation.order.model_validate(given)
    except ValidationError as e:
        problems = "; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in e.errors(include_input=False))
        known = " ".join(_described(operation.order))
        raise WrongUsage(f"{operation.name} takes {known}; wrong are: {problems}") from e


COMMANDS = {"catalog": catalog}
