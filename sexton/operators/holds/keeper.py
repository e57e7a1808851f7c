"""Holds as a keeper: an operator blocks deletion of an instance, a mark with its descendants, or a prefix."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from sexton.marks.keepers import Kept, by_hold
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.ancestors import TOO_MANY_LEVELS, find_ancestors
from sexton.marks.sql.file_lists import Span, in_span, may_have_prefix, read_lists
from sexton.marks.sql.keeper import Keeper

NARROW = ("mark", "prefix")
"""Scopes of holds on a part of an instance. Any other one holds all of it: a newer Sexton may know more scopes."""


class HoldKeeper(Keeper):
    """Judges candidates by the holds that are in force; they are few, and read under the guard."""

    def blocking(
        self,
        tx: Connection,
        token: WriteToken,
        candidates: Sequence[Candidate],
        files: Span,
        now: int,
        _snapshot: Any,
    ) -> Mapping[Ref, Kept]:
        """Return what a hold blocks: by its instance, its name or an ancestor's, or the prefix of one of its files."""
        hold = self._db.t.hold
        in_force = and_(hold.c.instance == token.instance, hold.c.released_at.is_(None), hold.c.expires_at > now)
        holds = tx.execute(select(hold).where(in_force)).all()
        refs = [candidate.ref for candidate in candidates]
        for row in holds:
            if row.scope not in NARROW:
                return dict.fromkeys(refs, by_hold(row.id))
        blocked = self._by_mark(tx, token, candidates, holds)
        prefix_holds = [row for row in holds if row.scope == "prefix"]
        if prefix_holds:
            for ref, hold_id in self._with_files_under(tx, files, frozenset(refs), prefix_holds).items():
                blocked.setdefault(ref, by_hold(hold_id))
        return blocked

    def _by_mark(
        self, tx: Connection, token: WriteToken, candidates: Sequence[Candidate], holds: Sequence[Any]
    ) -> dict[Ref, Kept]:
        held_marks = {Ref(row.mark_kind, row.mark_id): by_hold(row.id) for row in holds if row.scope == "mark"}
        if not held_marks:
            return {}
        not_excluded = by_hold(min(row.id for row in holds if row.scope == "mark"), TOO_MANY_LEVELS)
        lineages = find_ancestors(self._db, tx, token.instance, [candidate.ref for candidate in candidates])
        blocked: dict[Ref, Kept] = {}
        for candidate in candidates:
            lineage = lineages[candidate.ref]
            if not lineage.is_whole:
                blocked[candidate.ref] = not_excluded
            for held_ref in (lineage.refs | candidate.ancestors) & held_marks.keys():
                blocked[candidate.ref] = held_marks[held_ref]
        return blocked

    def _with_files_under(
        self, tx: Connection, span: Span, refs: frozenset[Ref], holds: Sequence[Any]
    ) -> dict[Ref, int]:
        """Return the marks that have a file under the prefix of a hold, each with the first such hold."""
        held: dict[Ref, int] = {}
        under_one = or_(*(may_have_prefix(self._db, hold.prefix) for hold in holds))
        for files in read_lists(self._db, tx, in_span(self._db, span), under_one):
            for run in files.runs_of(refs - held.keys()):
                keys = files.keys_of(run)
                for hold in holds:
                    if run.vault == hold.vault and any(key.startswith(hold.prefix) for key in keys):
                        held.setdefault(run.ref, hold.id)
        return held
