"""Marks that an operator discarded: no round deletes what they stood for, until its user decides anew.

History remembers a discarded mark, and the contract accepts no second one of its id. So a new decision of the user,
such as another drop, first removes that row.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import Table, delete, exists, select

from sexton import contract
from sexton.owners.catalog.errors import AlreadyThere, WrongState
from sexton.owners.catalog.records import ensure_found, lock_against_drop
from sexton.owners.catalog.scope import CatalogTransaction


def mark(tx: CatalogTransaction, kind: str, new_marks: Sequence[contract.NewMark]) -> None:
    """Mark objects whose earlier mark, if they had one, may have been discarded.

    Raises as ``contract.mark`` does.
    """
    forget(tx, kind, [new.id for new in new_marks])
    contract.mark(tx.c, tx.instance, kind, new_marks)


def forget(tx: CatalogTransaction, kind: str, ids: Collection[str]) -> None:
    """Forget that the marks of these ids were discarded: they may be marked again."""
    if ids:
        history = tx.db.t.mark_history
        is_discarded = [history.c.kind == kind, history.c.discarded.is_not(None)]
        tx.c.execute(delete(history).where(tx.in_instance(history.c.id, ids), *is_discarded))


def undrop(tx: CatalogTransaction, kind: str, records: Table, id_: str) -> bool:
    """Remove the mark of a dropped object; return whether it had one.

    If its mark was discarded, there is none: nothing deletes the object, nor what was dropped with it.

    Raises:
        contract.Refused: it is claimed or deleted, or what contains it was dropped, or it was not dropped.
        AlreadyDropped: its mark was discarded, and its table was dropped.
        RecordNotFound: it was deleted meanwhile.
        WrongState: it was undropped, or dropped again, meanwhile.
    """
    if not _is_given_up(tx, kind, records, id_):
        contract.undrop(tx.c, tx.instance, kind, [id_])
        return True
    record = select(records).where(tx.in_instance(records.c.id, [id_]))
    if "table_id" in records.c:
        lock_against_drop(tx, tx.t.tables, [row.table_id for row in tx.c.execute(record)])
    ensure_found(records, [id_], [row.id for row in tx.c.execute(record.with_for_update())])
    if not _is_given_up(tx, kind, records, id_):
        raise WrongState(f"{kind} {id_} was undropped or dropped by another caller at the same time; try again")
    return False


def _is_given_up(tx: CatalogTransaction, kind: str, records: Table, id_: str) -> bool:
    """Return whether an object is dropped, and no mark of it exists nor was deleted."""
    t, history = tx.db.t.mark, tx.db.t.mark_history
    is_deleted = exists().where(
        tx.in_instance(history.c.id, [id_]), history.c.kind == kind, history.c.discarded.is_(None)
    )
    is_marked = exists().where(tx.in_instance(t.c.id, [id_]), t.c.kind == kind)
    is_dropped = [tx.in_instance(records.c.id, [id_]), records.c.dropped]
    return tx.c.execute(select(records.c.id).where(*is_dropped, ~is_marked, ~is_deleted)).first() is not None


def check_unused(tx: CatalogTransaction, kind: str, *ids: str) -> None:
    """Raise ``AlreadyThere`` for an id that was dropped: its deletion would delete what has the same id."""
    t = tx.t
    named = [
        select(marks.c.id).where(tx.in_instance(marks.c.id, ids), marks.c.kind == kind)
        for marks in (tx.db.t.mark, tx.db.t.mark_history)
    ]
    if kind != "stage":  # a tablet whose mark was discarded stays, and would belong to the new object
        parent = t.tablets.c[f"{kind}_id"]
        named.append(select(parent).where(tx.in_instance(parent, ids)))
    for query in named:
        if used := tx.ids(query.limit(1)):
            raise AlreadyThere(f"{kind} {used[0]} was used before, and dropped; use a new id: ids are never used again")
