"""Run the operations that owners offer on their records, for commands and the API."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sexton.kernel.errors import BadInput
from sexton.owners.plugins import installed

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService
    from sexton.kernel.message import Message
    from sexton.owners.plugin import Operation


def operations() -> "Mapping[str, Sequence[Operation]]":
    """Return owner → its operations, for the installed owners that have any."""
    plugins = {name: owner.plugin for name, owner in installed().items() if owner.plugin is not None}
    return {name: offered for name, plugin in sorted(plugins.items()) if (offered := plugin.operations())}


def run(service: "OperatorService", owner: str, operation: "Operation", instance: str, order: "Message") -> Any:
    """Return the result of an operation.

    Raises:
        BadInput: the instance has another owner, or a log of deletions would not outlive it.
        UnknownInstance: there is no such instance.
    """
    registered = service.stores.registry.instance(instance)
    if registered.owner != owner:
        raise BadInput(f"the owner of {instance} is {registered.owner}, not {owner}; see: sexton instance list")
    if operation.drops_instance and not service.settings.audit.audit_url:
        raise BadInput(
            f"the log of deletions is in the vaults of {instance}, which an operator may empty afterwards; set "
            "audit.audit_url to a place elsewhere first"
        )
    return operation.run(service.db, instance, order)
