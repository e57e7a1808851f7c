"""Tell what another value of a setting would change, before it is set: at a terminal, in the API and in the console."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.settings import Settings
    from sexton.interfaces.operator_service import OperatorService
    from sexton.kernel.live import Live
    from sexton.protocol.settings import SettingChange
    from sexton.recycle.planning.model import Shift

WITHOUT_APPROVAL = "more may be deleted in 24 hours without approval (sexton plan list)"
SAFEGUARDS = {
    "recycle.max_delete_objects": WITHOUT_APPROVAL,
    "recycle.max_delete_fraction": WITHOUT_APPROVAL,
    "binlog.max_cut_fraction": "more of a binlog may be cut without approval",
    "binlog.gc_binlog_interval_seconds": "more of a binlog is cut without approval, also after a larger jump",
    "binlog.hold_limit_seconds": "binlogs are kept for a shorter time for a silent consumer, replica or follower",
    "check.check_grace_seconds": "younger objects count as orphans if no record names them",
}
"""Keys whose change may cause a deletion that no retention shows, and what it then does."""
SAFE_IF_LONG = ("binlog.hold_limit_seconds", "check.check_grace_seconds")
"""Of these, those that are safe if they are raised; the others are if they are lowered."""


def preview(service: "OperatorService", key: str, value: str | None, scope: str) -> "SettingChange":
    """Return what another value of a changeable setting would change.

    Args:
        service: of the deployment.
        key: the setting.
        value: the value; None: the one of environment, file or default.
        scope: an instance; empty: all of them.

    Raises:
        SettingsError: the key cannot be changed while workers run, or the value is not within its bounds.
        UnknownInstance: there is no such instance.
    """
    from sexton.protocol.settings import SettingChange

    service.live.read_again()
    after = service.live.changed(key, value, scope)
    moved = tuple(shifts(service, scope, after))
    is_looser = key in SAFEGUARDS and _is_looser(key, service.live.current(scope), after(scope))
    stored = next((row.value for row in service.live.rows() if (row.key, row.instance) == (key, scope)), "")
    return SettingChange(key=key, shifts=moved, loosens=SAFEGUARDS[key] if is_looser else "", replaces=stored)


def shifts(service: "OperatorService", scope: str, after: "Live[Settings]") -> "Iterator[Shift]":
    """Yield what other settings make due, or no longer due; ``scope``: an instance, or empty for all."""
    from sexton.recycle.planning import preview

    registry = service.stores.registry
    for instance in [registry.instance(scope)] if scope else registry.instances():
        yield from preview.shifts(service.db, instance.id, service.policy(instance.id), after(instance.id).policy())


def _is_looser(key: str, before: "Settings", after: "Settings") -> bool:
    section, _, name = key.partition(".")
    old, new = (float(getattr(getattr(settings, section), name)) for settings in (before, after))
    return new < old if key in SAFE_IF_LONG else new > old
