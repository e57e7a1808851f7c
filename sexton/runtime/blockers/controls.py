"""List stops, lists and windows that block deletions of an instance now."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sexton.insight.views import Blocker
from sexton.operators.controls.model import ALL, Control, ControlKind, Halt

if TYPE_CHECKING:
    from sexton.deployment import Deployment

ALL_INSTANCES = "(all)"


def control_blockers(service: "Deployment", instance: str) -> Iterator[Blocker]:
    """Yield the controls that halt the instance, then its vaults that are not on the vault whitelist."""
    store = service.stores.controls
    with service.db.read() as c:
        controls, now = store.all_in(c), service.db.now(c)
    for halt, scope in _halts(controls, instance, now):
        removable = halt.since is not None or halt.by is ControlKind.WINDOW
        yield Blocker(
            instance=scope,
            held_by=halt.by,
            what="everything" if scope == ALL_INSTANCES else "the whole instance",
            since=halt.since,
            until=halt.until,
            why=halt.why,
            way_out=halt.todo if removable else "sexton lists show",
        )
    yield from _vaults_not_listed(service, controls, instance)


def _halts(controls: tuple[Control, ...], instance: str, now: int) -> Iterator[tuple[Halt, str]]:
    """Yield each control that halts the instance, even where another one already does, and what it halts."""
    from sexton.operators.controls.policy import halt

    for control in controls:
        if control.kind in (ControlKind.STOP, ControlKind.BLACKLIST):
            one_halt = halt([control], instance, now)
            if one_halt is not None:
                yield one_halt, ALL_INSTANCES if control.name == ALL else instance
    # A whitelist, and the windows, halt as a whole: one entry of them alone says nothing.
    for kind, scope in ((ControlKind.WHITELIST, instance), (ControlKind.WINDOW, ALL_INSTANCES)):
        list_halt = halt([c for c in controls if c.kind is kind], instance, now)
        if list_halt is not None:
            yield list_halt, scope


def _vaults_not_listed(service: "Deployment", controls: tuple[Control, ...], instance: str) -> Iterator[Blocker]:
    from sexton.operators.controls.policy import vault_allowed, vault_whitelist

    whitelist = vault_whitelist(controls)
    entries = [c for c in controls if c.kind is ControlKind.VAULT_WHITELIST]
    for vault in service.stores.registry.vaults(instance):
        if not vault_allowed(whitelist, instance, vault.name):
            yield Blocker(
                instance=instance,
                held_by="vault whitelist",
                what=f"vault {vault.name}",
                since=max((c.since for c in entries if c.since), default=None),
                why=f"{instance}/{vault.name} is not on the list vaults, which is not empty",
                way_out=f"sexton lists add vaults {instance}/{vault.name}",
            )
