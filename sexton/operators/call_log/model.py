"""Calls as the log keeps them: who did what, and how it ended. Pure values."""

from sexton.kernel.message import Message

ASKED, DONE = "asked", "ok"


class CallRecord(Message):
    """A call that changed something or was refused."""

    at: int = 0
    who: str
    source: str
    """The caller's address, or ``cli@HOST``."""
    action: str
    instance: str = ""
    subject: str = ""
    """The object of the action: a job, the number of a plan."""
    outcome: str = ASKED
    """``ok``, the code of the error, or ``asked``: the outcome is unknown."""
    reason: str = ""
