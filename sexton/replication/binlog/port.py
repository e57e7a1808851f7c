"""What a look at binlogs needs of the stores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sexton.replication.binlog.model import CutReport


class BinlogSchedulePort(Protocol):
    """Whose binlogs are looked at: ``binlog.turns.BinlogTurns``."""

    def look(self, instance: str) -> str:
        """Begin a look; return why nothing may be cut in it, empty where it may."""
        ...

    def patient(self, instance: str) -> bool:
        """Tell whether who has been silent for the hold limit may be taken to be gone."""
        ...

    def looked(self, instance: str, cuts: int) -> None:
        """End a look that went well."""
        ...

    def logs(self, instance: str) -> Mapping[str, Sequence[str]]:
        """Return the logs of which something may go: database → tables."""
        ...


class CutterPort(Protocol):
    """Who cuts: ``binlog.cutting.Cutter``."""

    def cut(self, instance: str, name: str, tables: Sequence[str]) -> CutReport:
        """Cut some logs of a database."""
        ...


class Sends(Protocol):
    """Who tells copies: ``binlog.sending.Sender``."""

    def spread(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Let copies know what was cut since the last time."""
        ...

    def waiting(self, instance: str, after: str, limit: int) -> Sequence[str]:
        """Return backends that have something to let go."""
        ...


class Removes(Protocol):
    """Who removes rows: ``binlog.removing.Remover``."""

    def remove(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Remove what is below the watermarks."""
        ...


class GivesUp(Protocol):
    """Who no longer waits for replicas: ``replica.store.ReplicaStore``."""

    def give_up(self, instance: str) -> int:
        """Count no longer what has been unwell for too long."""
        ...


class Trims(Protocol):
    """Who keeps journals short: ``journal.store.JournalStore``."""

    def trim(self, instance: str, patience_ms: int, heartbeat: Callable[[], None], *, patient: bool) -> int:
        """Let go of entries that all followers have."""
        ...
