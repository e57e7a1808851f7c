"""The port of keepers: holds, protections, replicas and loads may block deletions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection

from sexton.marks.kept import Blocker, Event, KeepReason, Kept
from sexton.marks.model import Candidate, Ref, Span, WriteToken


class Keeper(Protocol):
    """Something that may block deletion. ``runtime/stores.py`` hands all keepers to the claim, in order of precedence.

    A keeper judges a mark by its name, its ancestors and the files stored for it in the token's batch.
    """

    for_claims_only: bool = False
    """Whether it judges only claims, and neither fences nor the second pass over a claimed prefix."""
    lists: KeepReason | None = None
    """The reason of whose subjects ``in_force`` lists all; None: it lists none."""

    def snapshot(self, _token: WriteToken, _refs: Collection[Ref], _files: Span, /) -> Any:
        """Read data that may be slow to read, before the guard is taken; None: all is read under the guard.

        The last argument: where the stored files of the marks are.
        """
        return None

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        files: Span,
        now: int,
        snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return the candidates that must stay, each with the reason. Called under the guard.

        Args:
            tx: the deciding transaction.
            token: its batch holds the candidates' files.
            candidates: the marks about to be claimed, children included.
            files: where their stored files are.
            now: the database's clock, in ms since 1970.
            snapshot: the result of ``snapshot``; None if it was not called.
        """
        ...

    def on_claimed(self, _tx: Connection, _token: WriteToken, _claimed: Sequence[Candidate], /) -> None:
        """Record in the claim's transaction that these marks are claimed, if the keeper must remember it."""
        return

    def explain(self, _instance: str, _mark: Candidate, /) -> Iterator[Event]:
        """Yield what this keeper says about one mark now, for people; nothing: it does not block the mark."""
        yield from ()

    def in_force(self, _instance: str, /) -> Iterator[Blocker]:
        """Yield what makes it block deletions of an instance now, where that does not depend on the mark."""
        yield from ()
