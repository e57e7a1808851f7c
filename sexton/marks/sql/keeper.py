"""The port of everything that may block deletion: holds, protections, replicas."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import Connection

from sexton.marks.keepers import Kept
from sexton.marks.model import Candidate, Ref, WriteToken


class Keeper(Protocol):
    """Something that may block deletion. ``runtime/stores.py`` hands all keepers to the claim, in order of precedence.

    A keeper judges a mark by its name, its ancestors and the files stored for it in the token's batch.
    """

    @property
    def for_claims_only(self) -> bool:
        """Whether it judges claims alone, and neither fences nor the second listing of a prefix that is claimed."""
        ...

    def snapshot(self, token: WriteToken, refs: Collection[Ref], files_after: int | None) -> Any:
        """Read what may be slow, before the guard is taken; None: nothing is.

        ``files_after``: a number that all stored files of the marks are above, where it is known.
        """
        ...

    def blocking(
        self, tx: Connection, token: WriteToken, candidates: Sequence[Candidate], now: int, snapshot: Any
    ) -> Mapping[Ref, Kept]:
        """Return the candidates that must stay, each with the answer why. Called under the guard.

        Args:
            tx: the deciding transaction.
            token: its batch holds the candidates' files.
            candidates: what is about to be claimed, children included.
            now: the database's clock, in ms since 1970.
            snapshot: what ``snapshot`` returned; None where it was not called.
        """
        ...

    def released(self, tx: Connection, token: WriteToken, claimed: Sequence[Candidate]) -> None:
        """Record in the claim's transaction that these are claimed, where the keeper must remember it."""
        ...
