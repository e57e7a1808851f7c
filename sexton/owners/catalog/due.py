"""What has become garbage by now: the tablets of dropped parents that are due, and loads that ran out of time."""

from sqlalchemy import exists, select, tuple_, update

from sexton.owners.catalog import labels, parents
from sexton.owners.catalog.model import TxnStatus
from sexton.owners.catalog.scope import CatalogTransaction

TIMEOUTS_AT_ONCE = 1_000
Cursor = tuple[int, str]
FIRST: Cursor = (0, "")


def expand_parents(s: CatalogTransaction, kind: str, cutoff: int, after: Cursor) -> Cursor | None:
    """Mark the tablets of the next parents that are due; return where to go on, None at the end.

    A parent whose undrop or claim is being decided this moment is left for the next round.
    """
    mark = s.db.t.mark
    due = (
        select(mark.c.ages_from, mark.c.id)
        .where(mark.c.instance == s.instance, mark.c.kind == kind, mark.c.state == "MARKED")
        .where(mark.c.quarantined_reason.is_(None), mark.c.ages_from <= cutoff)
        .where(tuple_(mark.c.ages_from, mark.c.id) > tuple_(*after, types=[mark.c.ages_from.type, mark.c.id.type]))
        .order_by(mark.c.ages_from, mark.c.id)
        .limit(parents.AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    rows = s.c.execute(due).all()
    if not rows:
        return None
    some = parents.few(s, kind, [r.id for r in rows])
    parents.mark_tablets(s, kind, some)
    return rows[len(some) - 1].ages_from, some[-1]


def time_out(s: CatalogTransaction) -> bool:
    """Abort loads whose time is up; return whether there may be more. One that is being committed is passed over."""
    txn = s.t.txns
    late = (
        select(txn.c.id)
        .where(txn.c.instance == s.instance, txn.c.parent_id.is_(None), txn.c.status == TxnStatus.PREPARED)
        .where(txn.c.timeout_at <= s.db.now(s.c))
        .order_by(txn.c.timeout_at)
        .limit(TIMEOUTS_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    ids = s.ids(late)
    s.c.execute(update(txn).where(s.mine(txn.c.id, ids)).values(status=TxnStatus.ABORTED))
    labels.aborted(s, ids)
    return len(ids) == TIMEOUTS_AT_ONCE


def forget_versions(s: CatalogTransaction) -> None:
    """Remove partition versions of tables that are gone: somebody wrote them late, and they have no files."""
    version, table, tablet = s.t.versions, s.t.tables, s.t.tablets
    kept = [
        exists().where(t.c.instance == s.instance, column == version.c.table_id)
        for t, column in ((table, table.c.id), (tablet, tablet.c.table_id))
    ]
    s.c.execute(version.delete().where(version.c.instance == s.instance, *[~k for k in kept]))
