"""The ports that a binlog GC run uses; stores in ``sql/`` and in the neighbouring folders implement them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from sexton.replication.binlog.model import CutReport


class BinlogSchedulePort(Protocol):
    """The state of runs: ``binlog.sql.schedule.BinlogSchedule``."""

    def begin_run(self, instance: str) -> str:
        """Begin a run; return why it may cut nothing, empty if it may cut."""
        ...

    def is_steady(self, instance: str) -> bool:
        """Tell whether runs had no break for the hold limit, so that a silent consumer is known to be silent."""
        ...

    def finish_run(self, instance: str, cuts: int) -> None:
        """Record the end of a run that succeeded."""
        ...

    def logs_to_cut(self, instance: str) -> Mapping[str, Sequence[str]]:
        """Return the logs with expired records: database → tables."""
        ...


class LogCutter(Protocol):
    """Cuts logs: ``binlog.sql.cutting.Cutter``."""

    def cut(self, instance: str, name: str, tables: Sequence[str]) -> CutReport:
        """Cut some logs of a database."""
        ...


class CutSender(Protocol):
    """Hands cuts to backends: ``binlog.sql.sending.Sender``."""

    def propagate(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Record in the replicas what was cut since the last run."""
        ...

    def waiting(self, instance: str, after: str, limit: int) -> Sequence[str]:
        """Return the backends that have binlogs to delete."""
        ...


class RecordRemover(Protocol):
    """Deletes rows of records: ``binlog.sql.removing.Remover``."""

    def remove(self, instance: str, heartbeat: Callable[[], None]) -> int:
        """Delete the rows below the watermarks."""
        ...


class ReplicaHolds(Protocol):
    """Ends the claims of replicas on versions: ``replicas.sql.store.ReplicaStore``."""

    def give_up(self, instance: str) -> int:
        """Mark replicas FULL_COPY_ONLY that were unhealthy for longer than the hold limit; return how many."""
        ...


class JournalTrimmer(Protocol):
    """Shortens journals: ``journal.store.JournalStore``."""

    def trim(self, instance: str, patience_ms: int, heartbeat: Callable[[], None], *, steady: bool) -> int:
        """Delete the entries that all followers have applied."""
        ...


class RunPorts(NamedTuple):
    """All ports of a run."""

    schedule: BinlogSchedulePort
    cutter: LogCutter
    sender: CutSender
    remover: RecordRemover
    replicas: ReplicaHolds
    journal: JournalTrimmer
