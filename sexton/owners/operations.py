"""Make operations of an owner from the methods of its store: names, texts and types are those of the methods."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import GenericAlias
from typing import Any, get_type_hints

from pydantic import create_model

from sexton.contract import MAX_BYTES
from sexton.database.contract_errors import check_text
from sexton.database.engine import Database
from sexton.kernel.errors import WrongUsage
from sexton.kernel.message import StrictMessage
from sexton.owners.plugin import OwnerOperation

VAR = inspect.Parameter.VAR_POSITIONAL


def from_method(
    store: Callable[[Database, str], Any], method: Callable[..., Any], *, reads: bool = False
) -> OwnerOperation:
    """Return the operation that calls a method of the store of an instance.

    A method with one ``StrictMessage`` takes this as its order; otherwise each parameter is a value of the order.
    ``reads``: it changes nothing.
    """
    hints = get_type_hints(method)
    parameters = [p for p in inspect.signature(method).parameters.values() if p.name != "self"]
    name = method.__name__.replace("_", "-")
    order = hints[parameters[0].name] if len(parameters) == 1 and parameters[0].kind is not VAR else None
    takes_order = inspect.isclass(order) and issubclass(order, StrictMessage)
    if not takes_order:
        fields: dict[str, Any] = {}  # type and default of each parameter, with lists in place of collections
        for p in parameters:
            default = ... if p.default is inspect.Parameter.empty else p.default
            fields[p.name] = (GenericAlias(Sequence, (hints[p.name],)) if p.kind is VAR else hints[p.name], default)
        order = create_model(name.title().replace("-", ""), __base__=StrictMessage, **fields)

    def run(db: Database, instance: str, values: StrictMessage) -> Any:
        _check(values.model_dump())
        bound = getattr(store(db, instance), method.__name__)
        if takes_order:
            return bound(values)
        given = {p.name: getattr(values, p.name) for p in parameters}
        several = [given.pop(p.name) for p in parameters if p.kind is VAR]
        return bound(*(item for items in several for item in items), **given)

    about = (inspect.getdoc(method) or "").partition("\n")[0]
    return OwnerOperation(name, about, order, hints.get("return"), run, reads)


def _check(value: Any) -> None:
    """Refuse values, at any depth of an order, that the database cannot store."""
    if isinstance(value, str):
        check_text(value)
    elif isinstance(value, int) and abs(value) > MAX_BYTES:
        raise WrongUsage(f"{value} is too large: at most {MAX_BYTES}")
    elif isinstance(value, Mapping):
        _check([*value, *value.values()])
    elif isinstance(value, Iterable):
        for item in value:
            _check(item)
