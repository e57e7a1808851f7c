"""Find the ancestors of marks: parents as marks and history name them, up to a limit.

An owner decides how long a chain of parents is. So it is climbed ``PARENT_LEVELS`` levels, and a mark with more of them
is never judged by those alone.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from sqlalchemy import Connection, and_, select

from sexton.database.engine import Database
from sexton.marks.model import Ref
from sexton.marks.sql.rows import refs_in

PARENT_LEVELS = 16
"""Levels of parents that holds climb; the function ``sexton.undrop`` climbs as many."""
TOO_MANY_LEVELS = f"not excluded: more than {PARENT_LEVELS} levels of parents"
"""Why a hold on any mark blocks one whose ancestors are not all read."""


class Lineage(NamedTuple):
    """A mark and its ancestors, whether these are marked, gone or unknown."""

    refs: set[Ref]
    is_whole: bool
    """Whether there are no further ancestors."""


def find_ancestors(db: Database, tx: Connection, instance: str, refs: Collection[Ref]) -> dict[Ref, Lineage]:
    """Return each mark with its ancestors."""
    parents = _parents(db, tx, instance, refs)
    return {ref: _climb(parents, ref) for ref in refs}


def _parents(db: Database, tx: Connection, instance: str, refs: Collection[Ref]) -> dict[Ref, set[Ref]]:
    """Return the parents of marks and of their ancestors; each is read once, however many marks share it."""
    parents: dict[Ref, set[Ref]] = {}
    level = set(refs)
    for _ in range(PARENT_LEVELS + 1):
        if not level:
            break
        parents |= {ref: set() for ref in level}
        for table in (db.t.mark, db.t.mark_history):
            has_parent = and_(table.c.instance == instance, table.c.parent_id.is_not(None), refs_in(table, level))
            columns = (table.c.kind, table.c.id, table.c.parent_kind, table.c.parent_id)
            for row in tx.execute(select(*columns).where(has_parent)):
                parents[Ref(row.kind, row.id)].add(Ref(row.parent_kind, row.parent_id))
        level = {parent for ref in level for parent in parents[ref]} - parents.keys()
    return parents


def _climb(parents: Mapping[Ref, set[Ref]], ref: Ref) -> Lineage:
    """Return a mark with its ancestors; a chain of parents may be a circle. Pure."""
    refs, level = {ref}, {ref}
    for _ in range(PARENT_LEVELS):
        level = {parent for child in level for parent in parents[child]} - refs
        refs |= level
    return Lineage(refs, all(parents[last] <= refs for last in level))
