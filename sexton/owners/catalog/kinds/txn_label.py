"""Marks of finished transactions: they have no files, only the records of their label, parts and transaction."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import FINISHED
from sexton.owners.catalog.scope import CatalogTransaction


def _expand(_scope: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    return {m.ref: Expansion() for m in marks}


def _live(tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    txn = tx.t.txns
    return tx.ids(select(txn.c.id).where(tx.in_instance(txn.c.id, ids), txn.c.status.not_in(FINISHED)))


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    """Remove finished transactions. A label has a row for each of its transactions, so a running one keeps its row."""
    txn, label = tx.t.txns, tx.t.labels
    live_ids = set(_live(tx, ids))
    finished_ids = [txn_id for txn_id in ids if txn_id not in live_ids]
    tx.remove(label.c.txn_id, finished_ids)
    tx.remove(txn.c.parent_id, finished_ids)
    tx.remove(txn.c.id, finished_ids)


KIND = CatalogKind(name="txn_label", expand=_expand, forget=_forget, live=_live)
