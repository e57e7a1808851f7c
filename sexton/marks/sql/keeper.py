"""The port of keepers: what may block deletions, such as holds and protections."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from sqlalchemy import ColumnElement, Connection, Table

from sexton.marks.kept import Blocker, Event, KeepReason, Kept
from sexton.marks.model import Candidate, Ref, Span, WriteToken


class Use(NamedTuple):
    """Rows that forbid the removal of an instance or a vault, what one of them is, and how they end."""

    rows: ColumnElement[bool]
    table: Table
    noun: str
    way_out: str


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

        ``tx``: the deciding transaction. ``candidates``: the marks about to be claimed, children included. ``files``:
        where their files are stored in the batch of ``token``. ``now``: the database's clock, in ms since 1970.
        ``snapshot``: the result of ``snapshot``; None if it was not called.
        """
        ...

    def on_claimed(self, _tx: Connection, _token: WriteToken, _claimed: Sequence[Candidate], /) -> None:
        """Record in the claim's transaction that these marks are claimed, if the keeper must remember it."""
        return

    def foreseen(self, _c: Connection, _instance: str, /) -> Mapping[Kept, ColumnElement[bool]]:
        """Return its answers about marks of an instance, each with the condition that it keeps a mark.

        Plans count by the conditions, which know the marks' rows only: they may miss a file, and never decide.
        """
        return {}

    def uses(self, _c: Connection, _instance: str, _vault: str | None, /) -> Iterator[Use]:
        """Yield the rows for which an instance must stay, or one vault of it. Called under the guard."""
        yield from ()

    def end_due(self, _instance: str, /) -> object:
        """End what is overdue: a round has opened, and has claimed nothing yet."""
        return None

    def delete_ended_rows(self) -> object:
        """Delete some rows of what ended long ago."""
        return None

    def explain(self, _instance: str, _mark: Candidate, /) -> Iterator[Event]:
        """Yield what this keeper says about one mark now, for people; nothing: it does not block the mark."""
        yield from ()

    def in_force(self, _instance: str, /) -> Iterator[Blocker]:
        """Yield what makes it block deletions of an instance now, where that does not depend on the mark."""
        yield from ()
