"""Who keeps marks back: one list of predicates, asked under the guard by a claim, before a fence, and by the last look
at a prefix.

Each looks at marks *and at the files they resolved to*, and names itself. A holder that lives elsewhere (the owner's
live view, a vault) is asked before the transaction, see docs/adr/0008.
"""

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from types import MappingProxyType

from sqlalchemy import Connection, and_, func, select

from sexton.database.engine import Database
from sexton.marks.model import Ref, WriteToken
from sexton.marks.sql.rows import among

Above = Mapping[Ref, Set[Ref]]
"""What marks belong to by their owner's records, beside the parents that they name."""
Holder = Callable[[Database, Connection, WriteToken, Collection[Ref], int, Above], Mapping[Ref, str]]
"""(database, transaction, batch, marks with stored files, now, above) → the marks it keeps, each with its name."""


def kept(
    db: Database, c: Connection, token: WriteToken, refs: Collection[Ref], now: int, above: Above = MappingProxyType({})
) -> dict[Ref, str]:
    """Return the marks that somebody keeps, and who."""
    found: dict[Ref, str] = {}
    for holder in HOLDERS:
        rest = [r for r in refs if r not in found]
        if rest:
            found |= holder(db, c, token, rest, now, above)
    return found


def operator_holds(
    db: Database, c: Connection, token: WriteToken, refs: Collection[Ref], now: int, above: Above
) -> Mapping[Ref, str]:
    """Return what an operator's hold keeps: a whole instance, a mark with all below it, or files under a prefix."""
    hold = db.t.hold
    holds = c.execute(
        select(hold).where(hold.c.instance == token.instance, hold.c.released_at.is_(None), hold.c.expires_at > now)
    ).all()
    found: dict[Ref, str] = {}
    for h in holds:
        if h.scope == "instance":
            return dict.fromkeys(refs, name(h.id))
    by_mark = {Ref(h.mark_kind, h.mark_id): name(h.id) for h in holds if h.scope == "mark"}
    if by_mark:
        for ref, chain in ancestors(db, c, token.instance, refs).items():
            found.update((ref, by_mark[held]) for held in (chain | above.get(ref, set())) & by_mark.keys())
    file = db.t.mark_file
    for h in holds:
        if h.scope == "prefix":
            under = and_(file.c.vault == h.vault, func.substr(file.c.key, 1, len(h.prefix)) == h.prefix)
            mine = and_(file.c.instance == token.instance, file.c.batch == token.batch, among(db, file, refs))
            for row in c.execute(select(file.c.kind, file.c.id).where(mine, under).distinct()):
                found.setdefault(Ref(*row), name(h.id))
    return found


HOLDERS: Sequence[Holder] = (operator_holds,)


def name(hold: int) -> str:
    """Return what a hold is called wherever holders are named."""
    return f"hold {hold}"


def ancestors(db: Database, c: Connection, instance: str, refs: Collection[Ref]) -> dict[Ref, set[Ref]]:
    """Return each mark with itself and all that is above it, marked, gone or unknown."""
    found = {r: {r} for r in refs}
    below = {r: {r} for r in refs}  # where the walk up stands → the marks it began at
    while below:
        above: dict[Ref, set[Ref]] = {}
        for table in (db.t.mark, db.t.mark_history):
            named = and_(table.c.instance == instance, table.c.parent_id.is_not(None), among(db, table, below))
            for row in c.execute(select(table.c.kind, table.c.id, table.c.parent_kind, table.c.parent_id).where(named)):
                above.setdefault(Ref(row.parent_kind, row.parent_id), set()).update(below[Ref(row.kind, row.id)])
        below = {}
        for parent, marks in above.items():
            if new := {r for r in marks if parent not in found[r]}:  # a chain may be a circle
                below[parent] = new
                for r in new:
                    found[r].add(parent)
    return found
