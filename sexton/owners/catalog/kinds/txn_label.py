"""A finished transaction: its label's row, its sub-transactions and itself; no files."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import FINISHED
from sexton.owners.catalog.scope import CatalogTransaction


def _expand(_scope: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    return {m.ref: Expansion() for m in marks}


def _live(s: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    txn = s.t.txns
    return s.ids(select(txn.c.id).where(s.mine(txn.c.id, ids), txn.c.status.not_in(FINISHED)))


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    """Remove finished ones. A label has a row for each of its transactions, so a running one keeps its own."""
    txn, label = s.t.txns, s.t.labels
    kept = set(_live(s, ids))
    gone = [i for i in ids if i not in kept]
    s.remove(label.c.txn_id, gone)
    s.remove(txn.c.parent_id, gone)
    s.remove(txn.c.id, gone)


KIND = CatalogKind(name="txn_label", retention="label_keep_max_second", expand=_expand, forget=_forget, live=_live)
