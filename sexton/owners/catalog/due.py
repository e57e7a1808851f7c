"""Find new garbage: the tablets of dropped parents that are due, and loads and restores that ran out of time."""

from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, exists, select, update

from sexton.database.ranges import beyond
from sexton.owners.catalog import labels, parents, restores
from sexton.owners.catalog.model import RestoreState, TxnStatus
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
    """Abort loads whose time is up; return whether there may be more."""
    txn = tx.t.txns
    ids = _expired(tx, txn.c.timeout_at, txn.c.parent_id.is_(None), txn.c.status == TxnStatus.PREPARED)
    tx.c.execute(update(txn).where(tx.in_instance(txn.c.id, ids)).values(status=TxnStatus.ABORTED))
    labels.aborted(tx, ids)
    return len(ids) == TIMEOUTS_AT_ONCE


def time_out_restores(tx: CatalogTransaction) -> bool:
    """Abort restores whose time is up; return whether there may be more."""
    job = tx.t.restore_jobs
    ids = _expired(tx, job.c.expires_at, job.c.state == RestoreState.RUNNING)
    restores.end(tx, ids, RestoreState.ABORTED)
    return len(ids) == TIMEOUTS_AT_ONCE


def _expired(tx: CatalogTransaction, deadline: Column[Any], *is_running: ColumnElement[bool]) -> list[str]:
    """Lock running records whose deadline has passed; return their ids. One that is being ended is skipped."""
    t = deadline.table
    expired = select(t.c.id).where(t.c.instance == tx.instance, *is_running, deadline <= tx.db.now(tx.c))
    return tx.ids(expired.order_by(deadline).limit(TIMEOUTS_AT_ONCE).with_for_update(skip_locked=True))


def forget_versions(tx: CatalogTransaction) -> None:
    """Remove partition versions of tables without records: a load wrote them late, and they have no files."""
    version, table, tablet = tx.t.versions, tx.t.tables, tx.t.tablets
    has_table = exists().where(table.c.instance == tx.instance, table.c.id == version.c.table_id)
    has_tablet = exists().where(tablet.c.instance == tx.instance, tablet.c.table_id == version.c.table_id)
    tx.c.execute(version.delete().where(version.c.instance == tx.instance, ~has_table, ~has_tablet))
