"""A hold as a value."""

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.keepers import Kept, by_hold


class Hold(Message):
    """A hold. A ``mark`` hold blocks that mark and all of its descendants. Instants are in ms since 1970."""

    id: int = Field(0, alias="hold")
    instance: str
    scope: str  # "instance", "mark", "prefix"; a newer Sexton may know others, which hold the instance
    mark_kind: str | None = None
    mark_id: str | None = None
    vault: str | None = None
    prefix: str | None = None
    reason: str
    placed_by: str = ""
    placed_at: int = 0
    expires_at: int = 0
    released_at: int | None = None

    @property
    def what(self) -> str:
        """Return what the hold blocks, for people."""
        if self.scope == "mark":
            return f"{self.mark_kind} {self.mark_id} and its descendants"
        return f"{self.vault}/{self.prefix}" if self.scope == "prefix" else "the whole instance"

    @property
    def ends_at(self) -> int:
        """Return when it ended or will end, in ms since 1970."""
        return min(self.released_at or self.expires_at, self.expires_at)

    @property
    def kept(self) -> Kept:
        """Return the answer that the hold gives about each mark that it blocks."""
        return by_hold(self.id)
