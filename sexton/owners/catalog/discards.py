"""Marks that an operator discarded: no round deletes what they stood for, until its user decides anew.

History remembers a discarded mark, and the contract accepts no second one of its id. So a new decision of the user,
such as another drop, first removes that row.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, Table, delete, exists, select

from sexton import contract
from sexton.owners.catalog.errors import AlreadyThere, WrongState
from sexton.owners.catalog.records import lock_against_drop
from sexton.owners.catalog.scope import CatalogTransaction


def mark(tx: CatalogTransaction, kind: str, new_marks: Sequence[contract.NewMark]) -> None:
    """Mark objects whose earlier mark, if they had one, may have been discarded.

    Raises as ``contract.mark`` does.
    """
    history = tx.db.t.mark_history
    _remove(tx, tx.in_instance(history.c.id, [new.id for new in new_marks]), kind)
    contract.mark(tx.c, tx.instance, kind, new_marks)


def undrop(tx: CatalogTransaction, kind: str, records: Table, id_: str) -> None:
    """Remove the mark of a dropped object. If it was discarded, nothing deletes the object, and there is none.

    Raises:
        contract.Refused: it is claimed or deleted, or what contains it was dropped, or it was not dropped.
        AlreadyDropped: its mark was discarded, and its table was dropped.
    """
    if not _is_given_up(tx, kind, records, id_):
        contract.undrop(tx.c, tx.instance, kind, [id_])
        return
    record = select(records).where(tx.in_instance(records.c.id, [id_]))
    if "table_id" in records.c:
        lock_against_drop(tx, tx.t.tables, [tx.c.execute(record).one().table_id])
    tx.c.execute(record.with_for_update()).one()
    if not _is_given_up(tx, kind, records, id_):
        raise WrongState(f"{kind} {id_} was undropped or dropped by another caller at the same time; try again")


def _is_given_up(tx: CatalogTransaction, kind: str, records: Table, id_: str) -> bool:
    """Return whether an object is dropped, and no mark of it exists nor was deleted."""
    t, history = tx.db.t.mark, tx.db.t.mark_history
    is_deleted = exists().where(
        tx.in_instance(history.c.id, [id_]), history.c.kind == kind, history.c.discarded.is_(None)
    )
    is_marked = exists().where(tx.in_instance(t.c.id, [id_]), t.c.kind == kind)
    is_dropped = [tx.in_instance(records.c.id, [id_]), records.c.dropped]
    return tx.c.execute(select(records.c.id).where(*is_dropped, ~is_marked, ~is_deleted)).first() is not None


def let_tablets_be_marked(tx: CatalogTransaction, parent_kind: str, parents: Collection[str]) -> None:
    """Let the next drop mark the tablets of these parents, although their marks were discarded."""
    if parents:
        history = tx.db.t.mark_history
        is_child = tx.in_instance(history.c.parent_id, parents) & (history.c.parent_kind == parent_kind)
        _remove(tx, is_child, "tablet")


def check_unused(tx: CatalogTransaction, kind: str, *ids: str) -> None:
    """Raise ``AlreadyThere`` for an id that was dropped: its deletion would delete what has the same id."""
    for t in (tx.db.t.mark, tx.db.t.mark_history):
        if used := tx.ids(select(t.c.id).where(tx.in_instance(t.c.id, ids), t.c.kind == kind).limit(1)):
            raise AlreadyThere(f"{kind} {used[0]} was used before, and dropped; use a new id: ids are never used again")


def _remove(tx: CatalogTransaction, condition: ColumnElement[bool], kind: str) -> None:
    history = tx.db.t.mark_history
    tx.c.execute(delete(history).where(condition, history.c.kind == kind, history.c.discarded.is_not(None)))
