"""Inputs and results of the binlog GC workflow and its activities: names and numbers, never lists of tablets."""

from sexton.kernel.message import Message
from sexton.replication.agent.model import Swept
from sexton.replication.binlog.model import CutReport

PAGE_BACKENDS = 30
"""Backends per workflow run: each adds three events to the history."""


class GcRequest(Message):
    """Cut an instance's binlogs, and let backends delete theirs.

    A run that continues as new passes on its progress: ``after`` is the last backend it has handled.
    """

    deployment: str
    instance: str
    requested_by: str = ""
    after: str = ""
    cut: CutReport | None = None
    """The result of the cut; None: not cut yet."""
    swept: Swept = Swept()
    backends: int = 0
    away: int = 0


class WaitingOrder(Message):
    """Find the backends that have binlogs to delete and whose names sort after ``after``."""

    instance: str
    after: str = ""


class Backends(Message):
    """A page of backends that have binlogs to delete. ``more``: there is another page."""

    names: tuple[str, ...] = ()
    more: bool = False


class GcReport(Message):
    """The result of a run. ``away``: backends that did not take their task; they pull their cuts when they are back."""

    instance: str
    cut: CutReport = CutReport()
    swept: Swept = Swept()
    backends: int = 0
    away: int = 0
    cancelled: bool = False
    said: tuple[str, ...] = ()


class GcProgress(Message):
    """The progress of a run."""

    instance: str
    doing: str
    cut: CutReport = CutReport()
    swept: Swept = Swept()
    waits: int = 0
    """Backends that are deleting now."""
    away: int = 0
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0
