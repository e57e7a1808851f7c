"""The port to an owner: what it has for us, what its marks stand for, and what it says about those about to be claimed.

Marks are always rows of ``mark``. For an owner in the same database (``sql``) they are there already, name their own
files, and its commit is the fence; so it is only asked what is live. The reference catalog answers every question.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from sexton.kernel.errors import SextonError
from sexton.marks.model import DueMark, Expansion, Fenced, Ref

Heartbeat = Callable[[], None]
"""Called between long statements; raises when the work should stop."""
COUNT_SECONDS = 30
"""How long an owner's database may count what is live (PostgreSQL): below what a heart waits for."""


class OwnerSilent(SextonError):
    """The owner could not say what is live or in use; everything it was asked about is kept."""


class Owner(Protocol):
    """One database's word about its marks. Each call may be repeated; any may raise ``OwnerSilent``."""

    def due(self, instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat) -> None:
        """Bring what has become garbage by now as marks: what is below parents that are due.

        It changes nothing else, so that a plan may ask for it as well.

        Args:
            instance: the instance; it may delete.
            cutoffs: kind → the latest ``coalesce(expires_at, marked_at)`` that is due, ms since 1970.
            beat: see ``Heartbeat``.
        """
        ...

    def grows(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return the kinds that ``due`` makes, and below which kinds: their time is their parent's."""
        ...

    def time_out(self, instance: str, heartbeat: Heartbeat) -> None:
        """Abort what has run out of time; what it leaves behind becomes marks. Asked by rounds that may delete."""
        ...

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        """Return what those marks stand for that do not name their own vault and files, or need a fence."""
        ...

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Make sure that none of these marks, FENCED a moment ago, is committed later; answer for each, with a reason.

        Whoever writes them is aborted first, and looked at again after that.
        """
        ...

    def forget(self, instance: str, batch: int, refs: Sequence[Ref]) -> None:
        """Remove the owner's own records of marks whose files are confirmed gone; the marks go next."""
        ...

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> frozenset[Ref]:
        """Return those of the marks of which anything is live."""
        ...

    def live_objects(self, instance: str) -> int | None:
        """Return how many objects are live this moment, None where that is not known or not known quickly."""
        ...

    def mended(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return those of the marks set aside for one of ``OWNERS_REASONS`` whose cause is gone."""
        ...
