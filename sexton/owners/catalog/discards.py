"""Marks that an operator discarded: no round deletes what they stood for, until its user decides again.

History remembers a discarded mark, and the contract accepts no second one of its id. So a new decision of the user,
such as another drop, first removes that row.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import ColumnElement, and_, delete, func, select

from sexton import contract
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
        is_discarded = [tx.in_instance(history.c.id, ids), history.c.kind == kind, history.c.discarded.is_not(None)]
        lock(tx, is_discarded)
        tx.c.execute(delete(history).where(*is_discarded))


def forget_below(tx: CatalogTransaction, kind: str, ids: Collection[str], kept: Collection[str] = ()) -> None:
    """Forget that marks below these objects were discarded; not those of indexes and partitions, which stay dropped.

    ``kept``: tablets that another dropped parent ends without.
    """
    if ids:
        history = tx.db.t.mark_history
        is_discarded = [tx.in_instance(history.c.parent_id, ids), history.c.parent_kind == kind]
        is_discarded += [history.c.discarded.is_not(None), history.c.kind.not_in(("index", "partition"))]
        if kept:
            is_discarded.append(~and_(history.c.kind == "tablet", tx.in_instance(history.c.id, kept)))
        lock(tx, is_discarded)
        tx.c.execute(delete(history).where(*is_discarded))


def lock(tx: CatalogTransaction, conditions: Sequence[ColumnElement[bool]]) -> None:
    """Lock rows of history in the order of their ids: rounds and undrops that change the same rows wait in turn."""
    history = tx.db.t.mark_history
    rows = select(history.c.id).where(*conditions).order_by(history.c.id, history.c.kind).with_for_update()
    tx.c.execute(select(func.count()).select_from(rows.subquery()))
