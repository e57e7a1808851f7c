"""Find the ancestors of marks: parents as marks and history name them, up to the top."""

from collections.abc import Collection

from sqlalchemy import Connection, and_, select

from sexton.database.engine import Database
from sexton.marks.model import Ref
from sexton.marks.sql.rows import refs_in


def find_ancestors(db: Database, tx: Connection, instance: str, refs: Collection[Ref]) -> dict[Ref, set[Ref]]:
    """Return for each mark a set of itself and all its ancestors, whether these are marked, gone or unknown."""
    ancestors = {ref: {ref} for ref in refs}
    climbing = {ref: {ref} for ref in refs}  # the level reached → the marks from which it was reached
    while climbing:
        parents: dict[Ref, set[Ref]] = {}
        for table in (db.t.mark, db.t.mark_history):
            has_parent = and_(
                table.c.instance == instance, table.c.parent_id.is_not(None), refs_in(db, table, climbing)
            )
            columns = (table.c.kind, table.c.id, table.c.parent_kind, table.c.parent_id)
            for row in tx.execute(select(*columns).where(has_parent)):
                start = climbing[Ref(row.kind, row.id)]
                parents.setdefault(Ref(row.parent_kind, row.parent_id), set()).update(start)
        climbing = {}
        for parent, marks in parents.items():
            if reached := {ref for ref in marks if parent not in ancestors[ref]}:  # a chain of parents may be a circle
                climbing[parent] = reached
                for ref in reached:
                    ancestors[ref].add(parent)
    return ancestors
