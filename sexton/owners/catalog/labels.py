"""End transactions: free their labels, and mark their records for removal."""

from collections.abc import Collection

from sqlalchemy import BigInteger, Text, literal, null, select, update

from sexton.owners.catalog.model import TxnStatus
from sexton.owners.catalog.scope import CatalogTransaction

KIND = "txn_label"


def aborted(tx: CatalogTransaction, txns: Collection[str]) -> None:
    """Free the labels of transactions that were just aborted, abort their parts, and mark their records."""
    if not txns:
        return
    txn, label = tx.t.txns, tx.t.labels
    is_running_part = [tx.in_instance(txn.c.parent_id, txns), txn.c.status == TxnStatus.PREPARED]
    tx.c.execute(update(txn).where(*is_running_part).values(status=TxnStatus.ABORTED))
    tx.c.execute(update(label).where(tx.in_instance(label.c.txn_id, txns)).values(active=False))
    no_parent = [null().cast(Text()).label(name) for name in ("parent_kind", "parent_id", "prefix")]
    tx.mark(
        KIND,
        select(txn.c.id, *no_parent, literal(0, BigInteger()).label("bytes")).where(tx.in_instance(txn.c.id, txns)),
    )
