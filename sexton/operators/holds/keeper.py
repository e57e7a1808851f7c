"""Holds as a keeper: an operator blocks deletion of an instance, a mark with its descendants, or a prefix."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, func, select

from sexton.database.engine import Database
from sexton.marks.keepers import Kept, by_hold
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.ancestors import find_ancestors
from sexton.marks.sql.rows import refs_in


class HoldKeeper:
    """Judges candidates by the holds that are in force. Implements ``marks.sql.keeper.Keeper``."""

    for_claims_only = False

    def __init__(self, db: Database) -> None:
        self._db = db

    def snapshot(self, _token: WriteToken, _refs: Collection[Ref], _files_after: int | None) -> None:
        """Holds are few: they are read under the guard."""
        return

    def blocking(
        self, tx: Connection, token: WriteToken, candidates: Sequence[Candidate], now: int, _snapshot: Any
    ) -> Mapping[Ref, Kept]:
        """Return what a hold blocks: by its instance, its name or an ancestor's, or the prefix of one of its files."""
        hold = self._db.t.hold
        in_force = and_(hold.c.instance == token.instance, hold.c.released_at.is_(None), hold.c.expires_at > now)
        holds = tx.execute(select(hold).where(in_force)).all()
        refs = [candidate.ref for candidate in candidates]
        for row in holds:
            if row.scope == "instance":
                return dict.fromkeys(refs, by_hold(row.id))
        blocked = self._by_mark(tx, token, candidates, holds)
        for row in holds:
            if row.scope == "prefix":
                for ref in self._with_files_under(tx, token, refs, row):
                    blocked.setdefault(ref, by_hold(row.id))
        return blocked

    def on_claimed(self, _tx: Connection, _token: WriteToken, _claimed: Sequence[Candidate]) -> None:
        """Holds need not remember what was claimed."""

    def _by_mark(
        self, tx: Connection, token: WriteToken, candidates: Sequence[Candidate], holds: Sequence[Any]
    ) -> dict[Ref, Kept]:
        held_marks = {Ref(row.mark_kind, row.mark_id): by_hold(row.id) for row in holds if row.scope == "mark"}
        if not held_marks:
            return {}
        ancestors = find_ancestors(self._db, tx, token.instance, [candidate.ref for candidate in candidates])
        blocked: dict[Ref, Kept] = {}
        for candidate in candidates:
            for held_ref in (ancestors[candidate.ref] | candidate.ancestors) & held_marks.keys():
                blocked[candidate.ref] = held_marks[held_ref]
        return blocked

    def _with_files_under(self, tx: Connection, token: WriteToken, refs: Collection[Ref], hold: Any) -> list[Ref]:
        file = self._db.t.mark_file
        # In byte order, never LIKE: a prefix may hold % and _.
        under = and_(file.c.vault == hold.vault, func.substr(file.c.key, 1, len(hold.prefix)) == hold.prefix)
        of_batch = and_(file.c.instance == token.instance, file.c.batch == token.batch, refs_in(self._db, file, refs))
        rows = tx.execute(select(file.c.kind, file.c.id).where(of_batch, under).distinct())
        return [Ref(*row) for row in rows]
