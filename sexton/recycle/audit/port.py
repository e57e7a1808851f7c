"""Where the audit goes."""

from collections.abc import Callable, Sequence
from typing import Protocol

from sexton.kernel.errors import SextonError
from sexton.recycle.audit.model import AuditRow


class AuditUnreadable(SextonError):
    """A file of the audit is damaged, or is none of ours."""


class DeletionLog(Protocol):
    """Rows of objects that were tried. Writing the same rows again changes nothing."""

    def write(self, rows: Sequence[AuditRow]) -> None:
        """Store the rows of one batch durably, before their records are removed.

        Raises:
            VaultFault: the place cannot be written; the records stay.
        """
        ...

    def forget(self, instance: str, now: int, heartbeat: Callable[[], None] = ...) -> int:
        """Remove files that are older than their retention, a part of them at a time; return how many went.

        To be called once a round; it looks once a day. A place that cannot be reached is looked at the next day.
        """
        ...
