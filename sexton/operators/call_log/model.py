"""Calls as the log has them: who did what, and how it ended. Pure values, and the hash that chains their rows."""

import hashlib
import json

from pydantic import Field

from sexton.kernel.message import Message

ASKED, DONE = "asked", "ok"
NO_HASH = "0" * 64
"""The hash before the first row."""


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
    times: int = 1
    """How many calls like this one it stands for."""


class CallRow(CallRecord):
    """One row of the log. It never changes: the outcome of a call, and later calls like it, are further rows."""

    begun_id: int | None = None
    """The first row of the same call; None: this is it."""
    previous: str = ""
    """The hash of the row before."""
    hash: str = ""

    def digest(self) -> str:
        """Return the hash of the row's content: SHA-256 of its other fields as JSON with sorted keys, in hex."""
        content = self.model_dump(exclude={"hash"})
        text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


class ChainHead(Message):
    """The newest row of the log, and the newest of those that were deleted because of their age; 0: none."""

    id: int = 0
    hash: str = NO_HASH
    trimmed_id: int = 0
    trimmed_hash: str = NO_HASH


class ChainFault(Message):
    """The first row at which the log is not as it was written."""

    row: int
    what: str


class ChainReport(Message):
    """The result of walking the chain: how many rows were compared, and the first that does not fit."""

    first: int
    last: int
    rows: int
    fault: ChainFault | None = None
