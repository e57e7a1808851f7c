"""Run the operations that owners offer on their records, for commands and the API."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sexton.kernel.errors import BadInput
from sexton.owners.plugins import installed

if TYPE_CHECKING:
    from sexton.kernel.message import Message
    from sexton.owners.plugin import OwnerOperation
    from sexton.runtime.deployment import Deployment

log = logging.getLogger(__name__)


def operations() -> "Mapping[str, Sequence[OwnerOperation]]":
    """Return owner → its operations, for the installed owners that have any."""
    offered: dict[str, Sequence[OwnerOperation]] = {}
    for name, owner in sorted(installed().items()):
        try:
            offered[name] = owner.plugin.operations() if owner.plugin is not None else ()
        except Exception:  # code of another package: the operations of the others must not be lost with it
            log.exception("the operations of owner %s cannot be loaded", name)
    return {name: operations_ for name, operations_ in offered.items() if operations_}


def subject(order: "Message") -> str:
    """Return what the log of calls has as the object of an operation: the first text of its order, at any depth."""
    return next(_texts(order.model_dump()), "")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value.values()))
    elif isinstance(value, Iterable):
        for item in value:
            yield from _texts(item)


def run(service: "Deployment", owner: str, operation: "OwnerOperation", instance: str, order: "Message") -> Any:
    """Return the result of an operation.

    Raises:
        BadInput: the instance has another owner.
        UnknownInstance: there is no such instance.
    """
    registered = service.stores.registry.instance(instance)
    if registered.owner != owner:
        raise BadInput(f"the owner of {instance} is {registered.owner}, not {owner}; see: sexton instance list")
    return operation.run(service.db, instance, order)
