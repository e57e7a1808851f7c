"""The port of keepers: holds, protections, replicas and loads may block deletions."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from sexton.database.engine import Database
from sexton.marks.keepers import Kept
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.file_lists import Span


class Keeper:
    """Something that may block deletion. ``runtime/stores.py`` hands all keepers to the claim, in order of precedence.

    A keeper judges a mark by its name, its ancestors and the files stored for it in the token's batch.
    """

    for_claims_only = False
    """Whether it judges only claims, and neither fences nor the second pass over a claimed prefix."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def snapshot(self, token: WriteToken, refs: Collection[Ref], files: Span) -> Any:
        """Read data that may be slow to read, before the guard is taken; None: there is none, all is read under it.

        ``files``: where the stored files of the marks are.
        """

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
        raise NotImplementedError

    def on_claimed(self, tx: Connection, token: WriteToken, claimed: Sequence[Candidate]) -> None:
        """Record in the claim's transaction that these marks are claimed, if the keeper must remember it."""
