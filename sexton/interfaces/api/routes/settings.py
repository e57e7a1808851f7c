"""Settings: those in force, what another value would change, and values of the database for all workers."""

from typing import Annotated

from fastapi import APIRouter, Path, Query

from config.live import check_mutable, explain_live
from config.mutable import is_per_instance
from sexton.interfaces import setting_changes
from sexton.interfaces.api.caller import CurrentCaller, Service
from sexton.interfaces.api.guarded_route import GuardedRoute
from sexton.operations.registry import Deed
from sexton.operators.access.model import EVERY_INSTANCE, Grant
from sexton.protocol.settings import NewSetting, SettingChange, SettingList, ShownSetting

routes = APIRouter(prefix="/v1/settings", route_class=GuardedRoute)
Key = Annotated[str, Path(max_length=100)]
OfInstance = Annotated[
    str, Query(alias="instance", max_length=63, description="only of this instance; without it: for all")
]
Value = Annotated[str | None, Query(max_length=100, description="without it: that of environment, file or default")]


@routes.get("")
def settings(service: Service, caller: CurrentCaller, instance: OfInstance = "") -> SettingList:
    """Return every setting in force; of one instance, those that may differ between instances."""
    caller.require(Grant.READ, instance or EVERY_INSTANCE)
    if instance:
        service.stores.registry.instance(instance)
    rows = explain_live(service.live, instance, service.stores.setting_rows.now())
    shown = [ShownSetting(**row._asdict()) for row in rows if not instance or is_per_instance(row.key)]
    ignored = [entry.why for entry in service.live.ignored() if not instance or entry.row.instance in ("", instance)]
    return SettingList(settings=tuple(shown), ignored=tuple(ignored))


@routes.get("/{key}/preview")
def preview(
    key: Key, service: Service, caller: CurrentCaller, value: Value = None, instance: OfInstance = ""
) -> SettingChange:
    """Return which marks another value makes due, or no longer due, and which safeguard it loosens."""
    caller.require(Grant.READ, instance or EVERY_INSTANCE)
    check_mutable(service.settings, key)
    return setting_changes.preview(service, key, value, instance)


@routes.put("/{key}")
def set_(
    key: Key, body: NewSetting, service: Service, caller: CurrentCaller, instance: OfInstance = ""
) -> SettingChange:
    """Set a value for all workers, in force within 5 s, and return what it changes. Ask for its preview first."""
    caller.require(Grant.OPERATE, instance or EVERY_INSTANCE)
    change = setting_changes.preview(service, key, body.value, instance)  # what it refuses could be a secret
    with caller.recorded(Deed("settings set", instance, Grant.OPERATE, f"{key}={body.value}", body.reason)):
        service.stores.setting_rows.put(key, body.value, instance, body.reason, caller.name)
        service.live.read_again()
    return change


@routes.delete("/{key}")
def unset(key: Key, service: Service, caller: CurrentCaller, instance: OfInstance = "") -> SettingChange:
    """Remove a value of the database: environment, file and default apply again. Idempotent."""
    with caller.recorded(Deed("settings unset", instance, Grant.OPERATE, key)):
        if not any((row.key, row.instance) == (key, instance) for row in service.live.rows()):
            check_mutable(service.settings, key)
        change = setting_changes.preview(service, key, None, instance)
        service.stores.setting_rows.remove(key, instance)
        service.live.read_again()
    return change
