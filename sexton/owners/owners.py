"""Route each call to the owner of its instance, and keep orphans that no recent check confirmed."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from sexton.marks.live import LiveEntry, Part
from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owners.port import (
    FindRefs,
    Heartbeat,
    LiveParts,
    Owner,
    RecordText,
    Verify,
    nothing_to_verify,
)

NO_CHECK = "its next check"
"""What an orphan's mark waits for: a whole check of the last two days that found the orphan again."""


class Owners(Owner):
    """Asks the owner that each instance was registered with."""

    def __init__(
        self,
        name_of: Callable[[str], str],
        owner_of: Callable[[str], Owner],
        unproven: Callable[[str, Collection[str]], Collection[str]] = lambda _, ids: ids,
    ) -> None:
        """Store the owners.

        Args:
            name_of: returns the name of an instance's owner, which never changes.
            owner_of: returns an owner by its name; ``OwnerSilent``: it is not installed here.
            unproven: returns which of an instance's orphan marks (ids) no recent whole check has found again.
        """
        self._unproven = unproven
        self._name_of = name_of
        self._owner_of = owner_of
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

    def live_as_of(self, instance: str) -> int | None:
        return self._owner(instance).live_as_of(instance)

    def live_parts(self, instance: str, moment: str, connection: Any, rows: int) -> LiveParts:
        return self._owner(instance).live_parts(instance, moment, connection, rows)

    def read_live(self, instance: str, moment: str, part: Part) -> Iterator[Sequence[LiveEntry]]:
        return self._owner(instance).read_live(instance, moment, part)

    def live_entries_of(self, instance: str, records: Sequence[str]) -> Sequence[LiveEntry]:
        return self._owner(instance).live_entries_of(instance, records)

    def contradictions(self, instance: str) -> Iterator[RecordText]:
        return self._owner(instance).contradictions(instance)

    def record_ids(self, instance: str, kind: str, after: str, until: str) -> AbstractContextManager[tuple[Any, Any]]:
        return self._owner(instance).record_ids(instance, kind, after, until)

    def memory_kinds(self, instance: str) -> Sequence[str]:
        return self._owner(instance).memory_kinds(instance)

    def memory_ids(self, instance: str, kind: str, after: str, limit: int) -> Sequence[str]:
        return self._owner(instance).memory_ids(instance, kind, after, limit)

    def refs_of_keys(self, instance: str, keys: Collection[str]) -> Collection[Ref]:
        return self._owner(instance).refs_of_keys(instance, keys)

    def live_texts(self, instance: str, keys: Collection[str]) -> Iterator[str]:
        return self._owner(instance).live_texts(instance, keys)

    def records_with(self, instance: str, ids: Collection[str]) -> Iterator[RecordText]:
        return self._owner(instance).records_with(instance, ids)

    def _unproven_orphans(self, instance: str, marks: Sequence[DueMark]) -> Sequence[Ref]:
        """Return the orphans among the marks that no recent whole check has found again."""
        orphans = [mark for mark in marks if mark.etags]
        if not orphans:
            return ()
        unproven_ids = self._unproven(instance, [mark.id for mark in orphans])
        return [mark.ref for mark in orphans if mark.id in unproven_ids]

    def _owner(self, instance: str) -> Owner:
        if instance not in self._owner_by_instance:
            self._owner_by_instance[instance] = self._owner_of(self._name_of(instance))
        return self._owner_by_instance[instance]
