"""Find new garbage: the tablets of dropped parents that are due, and loads that ran out of time."""

from typing import NamedTuple

from sqlalchemy import exists, select, update

from sexton.database.ranges import beyond
from sexton.owners.catalog import labels, parents
from sexton.owners.catalog.model import TxnStatus
from sexton.owners.catalog.scope import CatalogTransaction

TIMEOUTS_AT_ONCE = 1_000


class ExpandedUpTo(NamedTuple):
    """How far parents are expanded: up to one by ``retention_starts_at`` and id, and of this one up to a tablet."""

    starts_at: int = 0
    parent: str = ""
    tablet: str = ""
    """Empty: the parent is expanded as a whole."""


START = ExpandedUpTo()


def expand_parents(tx: CatalogTransaction, kind: str, cutoff: int, after: ExpandedUpTo) -> ExpandedUpTo | None:
    """Mark the tablets of the next parents that are due, or of the next part of one; return where to continue.

    None: all are expanded. A parent that an undrop or a claim has locked is left for the next round.

    Args:
        tx: the transaction.
        kind: kind of the parents.
        cutoff: the latest ``retention_starts_at`` that is due, ms since 1970.
        after: where the last call ended.
    """
    mark = tx.db.t.mark
    place = (mark.c.retention_starts_at, mark.c.id)
    is_next = mark.c.id == after.parent if after.tablet else beyond(place, (after.starts_at, after.parent))
    due = (
        select(mark.c.retention_starts_at, mark.c.id)
        .where(mark.c.instance == tx.instance, mark.c.kind == kind, mark.c.state == "MARKED")
        .where(mark.c.quarantined_reason.is_(None), mark.c.retention_starts_at <= cutoff)
        .where(is_next)
        .order_by(mark.c.retention_starts_at, mark.c.id)
        .limit(parents.AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    rows = tx.c.execute(due).all()
    if not rows:
        return after._replace(tablet="") if after.tablet else None
    parent_ids = parents.limited(tx, kind, [row.id for row in rows])
    tablet = parents.mark_tablets(tx, kind, parent_ids, after.tablet)
    return ExpandedUpTo(rows[len(parent_ids) - 1].retention_starts_at, parent_ids[-1], tablet)


def time_out(tx: CatalogTransaction) -> bool:
    """Abort loads whose time is up; return whether there may be more. One that is being ended is skipped."""
    txn = tx.t.txns
    is_running = [txn.c.instance == tx.instance, txn.c.parent_id.is_(None), txn.c.status == TxnStatus.PREPARED]
    expired = select(txn.c.id).where(*is_running, txn.c.timeout_at <= tx.db.now(tx.c)).order_by(txn.c.timeout_at)
    ids = tx.ids(expired.limit(TIMEOUTS_AT_ONCE).with_for_update(skip_locked=True))
    tx.c.execute(update(txn).where(tx.in_instance(txn.c.id, ids)).values(status=TxnStatus.ABORTED))
    labels.aborted(tx, ids)
    return len(ids) == TIMEOUTS_AT_ONCE


def forget_versions(tx: CatalogTransaction) -> None:
    """Remove partition versions of tables without records: a load wrote them late, and they have no files."""
    version, table, tablet = tx.t.versions, tx.t.tables, tx.t.tablets
    has_table = exists().where(table.c.instance == tx.instance, table.c.id == version.c.table_id)
    has_tablet = exists().where(tablet.c.instance == tx.instance, tablet.c.table_id == version.c.table_id)
    tx.c.execute(version.delete().where(version.c.instance == tx.instance, ~has_table, ~has_tablet))
