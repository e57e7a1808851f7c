"""The lists and windows, as commands and routes name them, and what an entry of each may be."""

from typing import TYPE_CHECKING

from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ControlKind, ListName

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService


CONTROL_KINDS = {
    ListName.BLACKLIST: ControlKind.BLACKLIST,
    ListName.WHITELIST: ControlKind.WHITELIST,
    ListName.VAULTS: ControlKind.VAULT_WHITELIST,
    ListName.WINDOWS: ControlKind.WINDOW,
}


def instance_in(which: ListName, name: str) -> str:
    """Return the instance that an entry names, for the log of calls; empty where it names none."""
    if which is ListName.VAULTS:
        return name.partition("/")[0] if "/" in name else ""
    return "" if which is ListName.WINDOWS else name


def refuse_unknown_name(service: "OperatorService", which: ListName, name: str) -> None:
    """Refuse a name that no list could contain: it is a typing error."""
    from sexton.operators.controls.policy import parse_window

    if any(c.kind is CONTROL_KINDS[which] and c.name == name for c in service.settings.controls()):
        return
    if which is ListName.WINDOWS:
        parse_window(name)
        if name not in {c.name for c in service.stores.controls.all() if c.kind is ControlKind.WINDOW}:
            raise BadInput(f"there is no window {name!r}; see: sexton lists show windows")
    elif which is ListName.VAULTS:
        vaults = service.stores.registry.vaults()
        if name not in {v.name for v in vaults} | {f"{v.instance}/{v.name}" for v in vaults}:
            raise BadInput(f"there is no vault {name}; see: sexton vault list")
    else:
        service.stores.registry.instance(name)
