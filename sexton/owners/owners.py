"""Whom to ask about an instance: its own owner."""

from collections.abc import Callable, Collection, Mapping, Sequence

from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owners.port import Heartbeat, Owner

NO_CHECK = "its next check"
"""What an orphan's mark waits for: a check that saw everything and found it again, of the last two days."""


class Owners:
    """Implements ``owner.port.Owner`` by asking the owner that an instance was registered with."""

    def __init__(
        self,
        name_of: Callable[[str], str],
        owners: Mapping[str, Owner],
        unproven: Callable[[str, Collection[str]], Collection[str]] = lambda _, ids: ids,
    ) -> None:
        """``name_of`` returns the name of an instance's owner, which never changes.

        ``unproven``: of the orphans' marks with these ids, those that no check has found again lately.
        """
        self._unproven = unproven
        self._name_of = name_of
        self._owners = owners
        self._known: dict[str, Owner] = {}

    def due(self, instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat) -> None:
        self._of(instance).due(instance, cutoffs, heartbeat)

    def grows(self, instance: str) -> Mapping[str, Collection[str]]:
        return self._of(instance).grows(instance)

    def time_out(self, instance: str, heartbeat: Heartbeat) -> None:
        self._of(instance).time_out(instance, heartbeat)

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        found = self._of(instance).expand(instance, marks, heartbeat)
        if not (ours := [m for m in marks if m.etags]):
            return found
        waiting = self._unproven(instance, [m.id for m in ours])
        return {**found, **{m.ref: Expansion(waits=NO_CHECK) for m in ours if m.id in waiting}}

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        return self._of(instance).fence(instance, batch, marks, heartbeat)

    def forget(self, instance: str, batch: int, refs: Sequence[Ref]) -> None:
        self._of(instance).forget(instance, batch, refs)

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> frozenset[Ref]:
        found = self._of(instance).live(instance, marks, heartbeat)
        ours = [m for m in marks if m.etags]
        waiting = self._unproven(instance, [m.id for m in ours]) if ours else ()
        return found | {m.ref for m in ours if m.id in waiting}

    def live_objects(self, instance: str) -> int | None:
        return self._of(instance).live_objects(instance)

    def mended(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        return self._of(instance).mended(instance, marks)

    def _of(self, instance: str) -> Owner:
        if instance not in self._known:
            self._known[instance] = self._owners[self._name_of(instance)]
        return self._known[instance]
