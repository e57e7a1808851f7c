"""Calls as the log has them: who did what, and how it ended. Pure values."""

from pydantic import Field

from sexton.kernel.message import Message

ASKED, DONE = "asked", "ok"


class CallRecord(Message):
    """A call that changed something or was refused."""

    id: int = Field(0, alias="call")
    at: int = Field(0, alias="happened_at")
    who: str
    source: str
    """The caller's address, or ``cli@HOST``, or ``worker@HOST``."""
    role: str = ""
    """The database role that wrote the row."""
    action: str
    instance: str = ""
    subject: str = ""
    """The object of the action: a job, the number of a plan."""
    outcome: str = ASKED
    """``ok``, the code of the error, or ``asked``: the outcome is unknown."""
    reason: str = ""


class CallRow(CallRecord):
    """One row of the log. It never changes: the outcome of a call is a second row."""

    begun_id: int | None = None
    """The first row of the same call; None: this is it."""
