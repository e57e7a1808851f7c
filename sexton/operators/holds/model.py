"""A hold as a value."""

from typing import NamedTuple

from pydantic import Field

from sexton.kernel.message import Message
from sexton.marks.kept import Kept, by_hold


class Coverage(NamedTuple):
    """Unclaimed marks that a hold blocks, as far as their rows show it.

    ``matching``: they match it. ``above``: their prefix covers that of a prefix hold, so they are blocked only if files
    are found under it. ``many_levels``: a hold on a mark blocks them because their ancestors are not all read.
    """

    matching: int
    above: int
    many_levels: int

    @property
    def blocked(self) -> int:
        """Return how many are blocked whatever files are found."""
        return self.matching + self.many_levels


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
