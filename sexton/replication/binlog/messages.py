"""What workflows and their activities say to each other about binlogs: names and numbers, never lists of tablets."""

from sexton.kernel.message import Message
from sexton.replication.agent.model import Swept
from sexton.replication.binlog.model import CutReport

PAGE_BACKENDS = 30
"""Told in one run; three events each."""
MOST_SAID = 5


class GcRequest(Message):
    """Cut an instance's binlogs, and have backends let go. Of a run that goes on for another: up to which backend."""

    deployment: str
    instance: str
    requested_by: str = ""
    after: str = ""
    cut: CutReport | None = None
    """What was cut already."""
    swept: Swept = Swept()
    backends: int = 0
    away: int = 0


class WaitingOrder(Message):
    """Which backends have something to let go, of those whose names come after one."""

    instance: str
    after: str = ""


class Backends(Message):
    """Backends that have something to let go. ``more``: there are others behind them."""

    names: tuple[str, ...] = ()
    more: bool = False


class GcReport(Message):
    """How a round ended. ``away``: backends that did not take their work; they pull it when they are back."""

    instance: str
    cut: CutReport = CutReport()
    swept: Swept = Swept()
    backends: int = 0
    away: int = 0
    cancelled: bool = False
    said: tuple[str, ...] = ()


class GcProgress(Message):
    """What a round does now."""

    instance: str
    doing: str
    cut: CutReport = CutReport()
    swept: Swept = Swept()
    waits: int = 0
    """Backends that are at it."""
    away: int = 0
    tries: int = 0
    error: str = ""
    backoff_seconds: float = 0.0
