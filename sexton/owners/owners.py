"""Route each call to the owner of its instance, and keep orphans that no recent check confirmed.

An owner is not asked before its instance has a vault.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from inspect import isfunction
from time import monotonic
from typing import Any

from sexton.marks.model import Cutoff, DueMark, Expansion, Ref
from sexton.owners.port import Heartbeat, NotAsked, Owner, Verify, nothing_to_verify
from sexton.storage.model import VaultSpec

VAULT_SECONDS = 60.0
"""How long a process takes for granted that an instance has a vault: the last one may be removed."""
NO_CHECK = "its next check"
"""What an orphan's mark waits for: a whole check of the last two days that found the orphan again."""


class Owners(Owner):
    """Asks the owner that each instance was registered with. Methods that are not here only do that: see ``_asked``."""

    def __init__(
        self,
        owner_of: Callable[[str], Owner],
        vaults_of: Callable[[str], Sequence[VaultSpec]],
        unproven: Callable[[str, Collection[str]], Collection[str]] = lambda _, ids: ids,
    ) -> None:
        """``owner_of``: ``OwnerSilent``, if it is not installed here; the owner of an instance never changes.

        ``unproven`` returns which of an instance's orphan marks (ids) no recent whole check has found again.
        """
        self._unproven = unproven
        self._owner_of = owner_of
        self._vaults_of = vaults_of
        self._owner_by_instance: dict[str, Owner] = {}
        self._vault_seen: dict[str, float] = {}
        """When an instance was last seen to have a vault (monotonic seconds)."""

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, Cutoff], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        if self._has_vault(instance):  # otherwise nothing is garbage yet
            self.of(instance).refresh(instance, heartbeat)
            self.of(instance).mark_due(instance, cutoffs, heartbeat, verify)

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        return self._declared(instance).marked_children(instance)

    def abort_expired(self, instance: str, heartbeat: Heartbeat) -> None:
        if self._has_vault(instance):
            self.of(instance).abort_expired(instance, heartbeat)

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        expansions = self.of(instance).expand(instance, marks, heartbeat)
        unproven = self._unproven_orphans(instance, marks)
        return {**expansions, **dict.fromkeys(unproven, Expansion(waits=NO_CHECK))}

    def keeps_records(self, instance: str) -> bool:
        return self._declared(instance).keeps_records(instance)

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        live_rows = self.of(instance).live(instance, marks, heartbeat)
        return {**dict.fromkeys(self._unproven_orphans(instance, marks), ""), **live_rows}

    def live_objects(self, instance: str) -> int | None:
        return self.of(instance).live_objects(instance) if self._has_vault(instance) else None

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        return self.of(instance).resolvable(instance, marks) if self._has_vault(instance) else ()

    def of(self, instance: str) -> Owner:
        """Return the owner of an instance, to be asked; raise ``NotAsked`` before the instance has a vault."""
        if not self._has_vault(instance):
            raise NotAsked(
                f"{instance} has no vault yet, so its owner is not asked; add one: sexton vault add {instance} NAME"
            )
        return self._declared(instance)

    def _unproven_orphans(self, instance: str, marks: Sequence[DueMark]) -> Sequence[Ref]:
        """Return the orphans among the marks that no recent whole check has found again."""
        orphans = [mark for mark in marks if mark.etags]
        if not orphans:
            return ()
        unproven_ids = self._unproven(instance, [mark.id for mark in orphans])
        return [mark.ref for mark in orphans if mark.id in unproven_ids]

    def _has_vault(self, instance: str) -> bool:
        now = monotonic()
        if now - self._vault_seen.get(instance, -VAULT_SECONDS) < VAULT_SECONDS:
            return True
        if has_vault := bool(self._vaults_of(instance)):
            self._vault_seen[instance] = now
        return has_vault

    def _declared(self, instance: str) -> Owner:
        """Return the owner of an instance, for what it declares without a look at its records."""
        if instance not in self._owner_by_instance:
            self._owner_by_instance[instance] = self._owner_of(instance)
        return self._owner_by_instance[instance]


def _asked(name: str) -> Callable[..., Any]:
    """Return the method that asks the owner of an instance, its first argument, without a question of its own."""
    return lambda owners, instance, *args: getattr(owners.of(instance), name)(instance, *args)


for _name, _method in vars(Owner).items():  # so that no method of the port is ever forgotten here
    if isfunction(_method) and _name not in vars(Owners):
        setattr(Owners, _name, _asked(_name))
