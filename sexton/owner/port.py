"""The port to an owner: what it has for us, and what it says about a batch we are about to claim.

Marks are always rows of ``mark``. For an owner in the same database (``sql``) they are there already and its own commit
is the fence, so it is only asked what is live. An owner in another store will also bring its marks, expand parents and
fence (``due``, ``expand``, ``fence``): they come with its adapter.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from sexton.errors import SextonError
from sexton.marks.model import DueMark, Ref


class OwnerSilent(SextonError):
    """The owner could not say what is live or in use; everything it was asked about is kept."""


class Owner(Protocol):
    """One database's word about its marks. Each call may be repeated."""

    def forget(self, instance: str, batch: int, refs: Sequence[Ref]) -> None:
        """Tell the owner that the files of these marks are gone."""
        ...

    def live(self, instance: str, marks: Sequence[DueMark], beat: Callable[[], None]) -> frozenset[Ref]:
        """Return those of the marks of which anything is live; ``beat`` is called between long statements.

        Raises:
            OwnerSilent: it cannot be known now.
        """
        ...
