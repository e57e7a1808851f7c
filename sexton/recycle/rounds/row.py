"""One round in a list."""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.recycle.model import RoundReport


class RoundRow(Message):
    """One round in a list; instants in ms since 1970. A round without ``ended_at`` is running, or was cut off."""

    id: int = Field(alias="round")
    instance: str
    state: str
    started_at: int
    ended_at: int | None
    plan: int | None
    report: RoundReport | None
    waiting: str | None = None
    waiting_since: int | None = Field(None, alias="waiting_since_at")
