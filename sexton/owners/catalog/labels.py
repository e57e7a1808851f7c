"""What the end of a transaction leaves: its label free again, and a mark by which its records go."""

from collections.abc import Collection

from sqlalchemy import BigInteger, Text, literal, null, select, update

from sexton.owners.catalog.model import TxnStatus
from sexton.owners.catalog.scope import CatalogTransaction

KIND = "txn_label"


def aborted(s: CatalogTransaction, txns: Collection[str]) -> None:
    """Free the labels of transactions that were aborted a moment ago, abort what is below them, mark their records."""
    if not txns:
        return
    txn, label = s.t.txns, s.t.labels
    below = [s.mine(txn.c.parent_id, txns), txn.c.status == TxnStatus.PREPARED]
    s.c.execute(update(txn).where(*below).values(status=TxnStatus.ABORTED))
    s.c.execute(update(label).where(s.mine(label.c.txn_id, txns)).values(active=False))
    nobody = [null().cast(Text()).label(n) for n in ("parent_kind", "parent_id", "prefix")]
    s.mark(KIND, select(txn.c.id, *nobody, literal(0, BigInteger()).label("bytes")).where(s.mine(txn.c.id, txns)))
