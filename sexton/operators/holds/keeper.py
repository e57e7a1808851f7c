"""Find the marks whose deletion operators' holds block.

Called under the guard: by a claim, before a fence, and before the second pass over a prefix. A hold is compared with
the mark, with its ancestors, and with the files that it resolved to. Blockers outside this database (the owner's live
view, a vault) are read before the transaction, see docs/adr/0008.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from sexton.database.engine import Database
from sexton.marks.model import Ref, WriteToken
from sexton.marks.sql.rows import among

Above = Mapping[Ref, Set[Ref]]
"""Ancestors of marks by the owner's records, in addition to the parents that the marks name."""


def kept(
    db: Database, c: Connection, token: WriteToken, refs: Collection[Ref], now: int, above: Above = MappingProxyType({})
) -> dict[Ref, str]:
    """Return the marks that a hold blocks, each with the name of one such hold.

    A hold is for a whole instance, for a mark with all its descendants, or for the files under a prefix.

    Args:
        db: the database.
        c: the transaction that decides about the marks.
        token: of the range; its stored files are compared with prefix holds.
        refs: the marks.
        now: ms since 1970.
        above: further ancestors of the marks.
    """
    if not refs:
        return {}
    holds = _active_holds(db, c, token.instance, now)
    for hold in holds:
        if hold.scope == "instance":
            return dict.fromkeys(refs, hold_name(hold.id))
    blocked = _blocked_with_ancestors(db, c, token.instance, refs, holds, above)
    for hold in holds:
        if hold.scope == "prefix":
            for ref in _with_files_under(db, c, token, refs, hold):
                blocked.setdefault(ref, hold_name(hold.id))
    return blocked


def hold_name(hold: int) -> str:
    """Return the name of a hold as rounds report it."""
    return f"hold {hold}"


def _active_holds(db: Database, c: Connection, instance: str, now: int) -> Sequence[Row[Any]]:
    hold = db.t.hold
    active = and_(hold.c.instance == instance, hold.c.released_at.is_(None), hold.c.expires_at > now)
    return c.execute(select(hold).where(active)).all()


def _blocked_with_ancestors(
    db: Database, c: Connection, instance: str, refs: Collection[Ref], holds: Sequence[Row[Any]], above: Above
) -> dict[Ref, str]:
    """Return the marks that are held themselves or through an ancestor."""
    held = {Ref(hold.mark_kind, hold.mark_id): hold_name(hold.id) for hold in holds if hold.scope == "mark"}
    if not held:
        return {}
    blocked: dict[Ref, str] = {}
    for ref, chain in ancestors(db, c, instance, refs).items():
        for ancestor in (chain | above.get(ref, set())) & held.keys():
            blocked[ref] = held[ancestor]
    return blocked


def _with_files_under(
    db: Database, c: Connection, token: WriteToken, refs: Collection[Ref], hold: Row[Any]
) -> list[Ref]:
    """Return the marks that have a stored file of this range under a hold's prefix."""
    file = db.t.mark_file
    under_prefix = and_(file.c.vault == hold.vault, func.substr(file.c.key, 1, len(hold.prefix)) == hold.prefix)
    of_marks = and_(file.c.instance == token.instance, file.c.batch == token.batch, among(db, file, refs))
    rows = c.execute(select(file.c.kind, file.c.id).where(of_marks, under_prefix).distinct())
    return [Ref(*row) for row in rows]


def ancestors(db: Database, c: Connection, instance: str, refs: Collection[Ref]) -> dict[Ref, set[Ref]]:
    """Return each mark with itself and all of its ancestors, be they marked, deleted or unknown."""
    chains = {ref: {ref} for ref in refs}
    reached_from = {ref: {ref} for ref in refs}  # ancestor of this step → the marks whose chain it belongs to
    while reached_from:
        parents: dict[Ref, set[Ref]] = {}
        for table in (db.t.mark, db.t.mark_history):
            having_parent = and_(
                table.c.instance == instance, table.c.parent_id.is_not(None), among(db, table, reached_from)
            )
            columns = select(table.c.kind, table.c.id, table.c.parent_kind, table.c.parent_id)
            for row in c.execute(columns.where(having_parent)):
                marks = reached_from[Ref(row.kind, row.id)]
                parents.setdefault(Ref(row.parent_kind, row.parent_id), set()).update(marks)
        reached_from = {}
        for parent, marks in parents.items():
            unvisited = {ref for ref in marks if parent not in chains[ref]}  # a chain may be a circle
            if unvisited:
                reached_from[parent] = unvisited
            for ref in unvisited:
                chains[ref].add(parent)
    return chains
