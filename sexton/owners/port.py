"""The port to an owner: it makes marks, resolves them to files, fences them, and knows which are live.

Marks are always rows of ``mark``. An owner in the same database (``sql``) inserts them itself, they name their own
files, and its commit is the fence; so such an owner only answers what is live. The reference catalog implements every
method.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from sexton.kernel.errors import SextonError
from sexton.marks.model import DueMark, Expansion, Fenced, Ref

Heartbeat = Callable[[], None]
"""Called between long statements; raises when the work should stop."""
Verify = Callable[[Any], None]
"""Called with the connection of each transaction that writes; raises if the caller's lease is not valid any more."""
FindRefs = Callable[[Any], Collection[Ref]]
"""Called with the connection of a transaction, in which the marks that it returns stay; raises as ``Verify`` does."""
COUNT_SECONDS = 30
"""Longest statement that counts live objects in an owner's database (PostgreSQL): below the heartbeat timeout."""


def nothing_to_verify(connection: Any) -> None:
    """Accept any transaction: the caller has no lease, because it is an operator's command."""


class OwnerSilent(SextonError):
    """The owner could not answer what is live or in use; every mark of the call is kept."""


class Owner(Protocol):
    """The answers of one database about its marks. Each call may be repeated; any may raise ``OwnerSilent``."""

    def mark_due(
        self, instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat, verify: Verify = nothing_to_verify
    ) -> None:
        """Mark new garbage: the children of parents that are due.

        It changes nothing else, so that a plan may call it as well.

        Args:
            instance: an instance that is enabled, so that rounds may delete.
            cutoffs: kind → the latest ``retention_starts_at`` that is due, ms since 1970.
            heartbeat: see ``Heartbeat``.
            verify: see ``Verify``; a round of older cutoffs must not mark what a newer one keeps.
        """
        ...

    def marked_children(self, instance: str) -> Mapping[str, Collection[str]]:
        """Return kind → kinds of its parents, for those that ``mark_due`` marks; they are due when it is."""
        ...

    def abort_expired(self, instance: str, heartbeat: Heartbeat) -> None:
        """Abort transactions that ran out of time: their files become garbage. Called by rounds that may delete."""
        ...

    def expand(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        """Return the files of those marks that do not name their own vault and files, or require a fence."""
        ...

    def fence(
        self, instance: str, batch: int, marks: Sequence[Ref], heartbeat: Heartbeat
    ) -> Mapping[Ref, tuple[Fenced, str]]:
        """Make sure that none of these marks, which are FENCED, is committed later; return mark → answer and reason.

        The owner aborts the transactions that write them, and then reads the states of these transactions.
        """
        ...

    def keeps_records(self, instance: str) -> bool:
        """Return whether the owner has records of its own, which ``forget`` removes."""
        ...

    def forget(self, instance: str, find_refs: FindRefs) -> None:
        """Remove the owner's own records of marks whose files are confirmed deleted; the marks are removed next.

        ``find_refs`` returns these marks. It is called inside the transaction that removes the records.
        """
        ...

    def live(self, instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, str]:
        """Return the marks that name, cover or touch anything live; for the first of them, the live rows as a text."""
        ...

    def live_objects(self, instance: str) -> int | None:
        """Return how many objects are live now, None where that is unknown or cannot be counted quickly."""
        ...

    def resolvable(self, instance: str, marks: Sequence[DueMark]) -> Collection[Ref]:
        """Return which marks, quarantined for one of ``OWNERS_REASONS``, the owner can resolve again."""
        ...
