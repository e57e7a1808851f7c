"""A quarantined mark as operators see it."""

from pydantic import Field

from sexton.kernel.message import Message


class Quarantined(Message):
    """One quarantined mark; instants in ms since 1970."""

    instance: str
    kind: str
    id: str = Field(alias="mark")
    state: str
    reason: str
    failures: int
    last_error: str | None
    marked_at: int
    vault: str | None
    prefix: str | None
    keys: int
    bytes: int
