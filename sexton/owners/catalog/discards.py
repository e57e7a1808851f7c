"""Marks that an operator discarded: no round deletes what they stood for, until its user decides again.

History remembers a discarded mark, and the contract accepts no second one of its id. So a new decision of the user,
such as another drop, first removes that row.
"""

from collections.abc import Collection, Sequence

from sqlalchemy import delete

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
    history = tx.db.t.mark_history
    is_discarded = [tx.in_instance(history.c.id, ids), history.c.kind == kind, history.c.discarded.is_not(None)]
    tx.c.execute(delete(history).where(*is_discarded))
