"""Tell what another value of a setting would change, before it is set: at a terminal, in the API and in the console."""

import hashlib
from typing import TYPE_CHECKING

from config.live import check_mutable
from sexton.kernel.message import Message
from sexton.recycle.planning.model import Shift

if TYPE_CHECKING:
    from collections.abc import Iterator

    from config.settings import Settings
    from sexton.kernel.live import Live
    from sexton.runtime.deployment import Deployment

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


class SettingChange(Message):
    """What another value changes: what becomes due or no longer due.

    ``loosens``: the safeguard that gets weaker. ``replaces``: the value that the database has now; empty: none.
    ``done``: whether it was set, or removed; False: it was only asked, or there was nothing to remove.
    ``elsewhere``: other scopes in which a setting that was to be removed is set; empty text: all instances.
    """

    key: str
    shifts: tuple[Shift, ...]
    loosens: str
    replaces: str = ""
    done: bool = False
    elsewhere: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Return what an operator agrees to: it changes with the settings, and not with each new mark."""
        moved = sorted((shift.instance, shift.kind, shift.before, shift.after) for shift in self.shifts)
        return hashlib.sha256(repr((self.key, moved, self.loosens, self.replaces)).encode()).hexdigest()[:32]

    @property
    def deletes_more(self) -> bool:
        """Return whether more would be deleted, or with fewer questions."""
        return bool(self.loosens) or any(shift.more and shift.marks for shift in self.shifts)


def preview(service: "Deployment", key: str, value: str | None, scope: str) -> SettingChange:
    """Return what another value of a changeable setting would change.

    ``value``: None, the one of environment, file or default. ``scope``: an instance; empty: all of them.

    Raises:
        SettingsError: the key cannot be changed while workers run, or the value is not within its bounds.
        UnknownInstance: there is no such instance.
    """
    service.live.read_again()
    if key not in {row.key for row in service.live.rows()}:  # a key of an earlier version can still be removed
        check_mutable(service.settings, key)
    after = service.live.changed(key, value, scope)
    moved = tuple(shifts(service, scope, after))
    is_looser = False
    if key in SAFEGUARDS:
        section, _, name = key.partition(".")
        before, changed = service.live.current(scope), after(scope)
        old, new = (float(getattr(getattr(settings, section), name)) for settings in (before, changed))
        is_looser = new < old if key in SAFE_IF_LONG else new > old
    stored = next((row.value for row in service.live.rows() if (row.key, row.instance) == (key, scope)), "")
    return SettingChange(key=key, shifts=moved, loosens=SAFEGUARDS[key] if is_looser else "", replaces=stored)


def shifts(service: "Deployment", scope: str, after: "Live[Settings]") -> "Iterator[Shift]":
    """Yield what other settings make due, or no longer due; ``scope``: an instance, or empty for all."""
    from sexton.recycle.planning.sql import plans as preview

    registry = service.stores.registry
    for instance in [registry.instance(scope)] if scope else registry.instances():
        yield from preview.shifts(service.db, instance.id, service.policy(instance.id), after(instance.id).policy())
