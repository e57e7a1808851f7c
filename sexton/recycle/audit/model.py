"""The row of the log of deletions, what stores it, and the errors of its readers."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from sexton.kernel.errors import Ended, SextonError


class AuditUnreadable(SextonError):
    """A file of the log of deletions is damaged, or is not a file of the log."""


class AuditEnded(Ended):
    """What a round deleted is no longer in the log of deletions: its retention has ended, or files were removed."""


class AuditRow(NamedTuple):
    """One object, the outcome of its deletion and the reason of a failure, its mark, and the batch and round.

    ``bytes`` is None where the size is unknown; ``at`` is in ms since 1970.
    """

    at: int
    instance: str
    round: int
    batch: int
    seq: int
    kind: str
    id: str
    vault: str
    key: str
    bytes: int | None
    outcome: str
    reason: str


class DeletionLog(Protocol):
    """Stores rows of objects that a round tried to delete. Writing the same rows again changes nothing."""

    def write(self, rows: Sequence[AuditRow]) -> None:
        """Store the rows of one batch durably, before their records are removed.

        Raises:
            VaultFault: the location cannot be written; the records stay.
        """
        ...

    def forget(self, instance: str, now: int, heartbeat: Callable[[], None] = ...) -> int:
        """Remove files that are older than their retention, some at a time; return how many were removed.

        Called once per round, it checks once a day. A location that cannot be reached is checked again the next day.

        Args:
            instance: the one whose files are removed.
            now: in ms since 1970.
            heartbeat: called between pages.
        """
        ...
