"""Route each call to the owner of its instance, and keep orphans that no recent check confirmed."""

from collections.abc import Callable, Collection, Mapping, Sequence

from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owners.port import FindRefs, Heartbeat, Owner, Verify, nothing_to_verify

NO_CHECK = "its next check"
"""What an orphan's mark waits for: a whole check of the last two days that found the orphan again."""


class Owners:
    """Implements ``owners.port.Owner`` with the owner that each instance was registered with."""

    def __init__(
        self,
        name_of: Callable[[str], str],
        owners: Mapping[str, Owner],
        unproven: Callable[[str, Collection[str]], Collection[str]] = lambda _, ids: ids,
    ) -> None:
        """Store the owners.

        Args:
            name_of: returns the name of an instance's owner, which never changes.
            owners: name → owner.
            unproven: returns which of an instance's orphan marks (ids) no recent whole check has found again.
        """
        self._unproven = unproven
        self._name_of = name_of
        self._owners = owners
        self._owner_by_instance: dict[str, Owner] = {}

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        self._owner(instance).mark_due(instance, cutoffs, heartbeat, verify)

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        return self._owner(instance).marked_children(instance)

    def abort_expired(self, instance: str, heartbeat: Heartbeat) -> None:
        self._owner(instance).abort_expired(instance, heartbeat)

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        expansions = self._owner(instance).expand(instance, marks, heartbeat)
        unproven = self._unproven_orphans(instance, marks)
        return {**expansions, **dict.fromkeys(unproven, Expansion(waits=NO_CHECK))}

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        return self._owner(instance).fence(instance, batch, marks, heartbeat)

    def keeps_records(self, instance: str) -> bool:
        return self._owner(instance).keeps_records(instance)

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        self._owner(instance).forget(instance, find_refs)

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        live_rows = self._owner(instance).live(instance, marks, heartbeat)
        return {**dict.fromkeys(self._unproven_orphans(instance, marks), ""), **live_rows}

    def live_objects(self, instance: str) -> int | None:
        return self._owner(instance).live_objects(instance)

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        return self._owner(instance).resolvable(instance, marks)

    def _unproven_orphans(self, instance: str, marks: Sequence[DueMark]) -> Sequence[Ref]:
        """Return the orphans among the marks that no recent whole check has found again."""
        orphans = [mark for mark in marks if mark.etags]
        if not orphans:
            return ()
        unproven_ids = self._unproven(instance, [mark.id for mark in orphans])
        return [mark.ref for mark in orphans if mark.id in unproven_ids]

    def _owner(self, instance: str) -> Owner:
        if instance not in self._owner_by_instance:
            self._owner_by_instance[instance] = self._owners[self._name_of(instance)]
        return self._owner_by_instance[instance]
