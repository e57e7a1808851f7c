"""Lists and windows: which instances and vaults rounds may work on, and when."""

from fastapi import APIRouter

from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.interfaces.lists import CONTROL_KINDS, refuse_unknown_name
from sexton.operations.registry import Deed
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.operators.controls.model import ListName
from sexton.protocol.operating import ControlList, ListChange, ListEntry

routes = APIRouter(prefix="/v1/lists", route_class=GuardedRoute)


@routes.get("")
def lists(service: Service, caller: CurrentCaller) -> ControlList:
    """Return stops and the entries of all lists, those of the settings last."""
    caller.require(Grant.READ, EVERY_INSTANCE)
    return ControlList(controls=service.stores.controls.all())


@routes.post("/{name}/add")
def add(name: ListName, body: ListEntry, service: Service, caller: CurrentCaller) -> ListChange:
    """Put an entry on a list; effective within 5 s. Idempotent."""
    deed = Deed(f"lists add {name}", _instance_in(name, body.name), Grant.OPERATE, body.name, body.reason)
    with caller.recorded(deed, keeps=name is ListName.BLACKLIST):
        service.stores.controls.put(CONTROL_KINDS[name], body.name, body.reason, caller.name)
    return ListChange(list=name, name=body.name, listed=True)


@routes.post("/{name}/remove")
def remove(name: ListName, body: ListEntry, service: Service, caller: CurrentCaller) -> ListChange:
    """Take an entry off a list; it stays listed if the settings name it. Idempotent."""
    kind = CONTROL_KINDS[name]
    deed = Deed(f"lists remove {name}", _instance_in(name, body.name), Grant.OPERATE, body.name, body.reason)
    with caller.recorded(deed):
        if not service.stores.controls.remove(kind, body.name):
            refuse_unknown_name(service, name, body.name)
    listed = any(control.kind is kind and control.name == body.name for control in service.settings.controls())
    return ListChange(list=name, name=body.name, listed=listed)


def _instance_in(list_: ListName, name: str) -> str:
    """Return the only instance that an entry affects; empty: it affects others, as those that a whitelist lacks."""
    return name if list_ is ListName.BLACKLIST else ""
