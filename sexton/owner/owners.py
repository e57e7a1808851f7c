"""Whom to ask about an instance: its own owner."""

from collections.abc import Callable, Collection, Mapping, Sequence

from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owner.port import Beat, Owner


class Owners:
    """Implements ``owner.port.Owner`` by asking the owner that an instance was registered with."""

    def __init__(self, name_of: Callable[[str], str], owners: Mapping[str, Owner]) -> None:
        """``name_of`` returns the name of an instance's owner, which never changes."""
        self._name_of = name_of
        self._owners = owners
        self._known: dict[str, Owner] = {}

    def due(self, instance: str, cutoffs: Mapping[str, int], beat: Beat) -> None:
        self._of(instance).due(instance, cutoffs, beat)

    def grows(self, instance: str) -> Mapping[str, Collection[str]]:
        return self._of(instance).grows(instance)

    def time_out(self, instance: str, beat: Beat) -> None:
        self._of(instance).time_out(instance, beat)

    def expand(self, instance: str, marks: Sequence[DueMark], beat: Beat) -> Mapping[Ref, Expansion]:
        return self._of(instance).expand(instance, marks, beat)

    def fence(self, instance: str, batch: int, marks: Sequence[Ref], beat: Beat) -> Mapping[Ref, tuple[Fenced, str]]:
        return self._of(instance).fence(instance, batch, marks, beat)

    def forget(self, instance: str, batch: int, refs: Sequence[Ref]) -> None:
        self._of(instance).forget(instance, batch, refs)

    def live(self, instance: str, marks: Sequence[DueMark], beat: Beat) -> frozenset[Ref]:
        return self._of(instance).live(instance, marks, beat)

    def live_objects(self, instance: str) -> int | None:
        return self._of(instance).live_objects(instance)

    def mended(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        return self._of(instance).mended(instance, marks)

    def _of(self, instance: str) -> Owner:
        if instance not in self._known:
            self._known[instance] = self._owners[self._name_of(instance)]
        return self._known[instance]
