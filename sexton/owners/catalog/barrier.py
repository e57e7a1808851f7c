"""End loads, and fence prepared rowsets: abort their writers, then read the writers' states in a later statement.

The engine has set the marks to FENCED, so no commit of them can succeed from now on; an earlier commit has removed its
mark. Two cases remain, and both keep the rowset: a load between its two phases, and one whose record is unreadable.
"""

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import exists, select, update

from sexton.marks.model import Fenced
from sexton.owners.catalog.model import JOB, TXN, RowsetState, TxnStatus
from sexton.owners.catalog.records import CatalogTransaction

FENCE_BATCH = 256
"""Prepared rowsets whose writers are aborted in one transaction."""
TIMEOUTS_AT_ONCE = 1_000
_COMMITTING = (TxnStatus.PRECOMMITTED, TxnStatus.COMMITTED, TxnStatus.VISIBLE)
Writers = Mapping[str, str | None]
"""Rowset id → the ``owner_txn`` of its mark, which names the transaction or compaction that writes it."""


def fenced(tx: CatalogTransaction, ids: Collection[str]) -> dict[str, str | None]:
    """Return the writers of those marks that are FENCED: a rowset that was committed in between has no mark."""
    mark = tx.db.t.mark
    is_fenced = [tx.in_instance(mark.c.id, ids), mark.c.kind == "prepared", mark.c.state == "FENCED"]
    return {row.id: row.owner_txn for row in tx.c.execute(select(mark.c.id, mark.c.owner_txn).where(*is_fenced))}


def abort(tx: CatalogTransaction, writers: Writers) -> None:
    """Abort the running loads among the writers, and their parent loads; remove compaction jobs."""
    txn, job = tx.t.txns, tx.t.jobs
    txn_ids = _ids(writers, TXN)
    parent_ids = select(txn.c.parent_id).where(tx.in_instance(txn.c.id, txn_ids), txn.c.parent_id.is_not(None))
    root_ids = [*txn_ids, *tx.ids(parent_ids)]
    is_root = [tx.in_instance(txn.c.id, root_ids), txn.c.parent_id.is_(None)]
    is_running_root = [*is_root, txn.c.status == TxnStatus.PREPARED]
    aborted = tx.c.execute(update(txn).where(*is_running_root).values(status=TxnStatus.ABORTED).returning(txn.c.id))
    end(tx, list(aborted.scalars()))
    parent = txn.alias("root")
    has_no_parent_record = ~exists().where(parent.c.id == txn.c.parent_id, parent.c.instance == txn.c.instance)
    is_lone_part = [txn.c.parent_id.is_not(None), has_no_parent_record, txn.c.status == TxnStatus.PREPARED]
    tx.change(txn.c.id, txn_ids, *is_lone_part, status=TxnStatus.ABORTED)
    tx.remove(job.c.id, _ids(writers, JOB))


def judge(tx: CatalogTransaction, writers: Writers) -> dict[str, tuple[Fenced, str]]:
    """Return for each rowset whether its writer can still commit it, as the records are now."""
    rowset, job, txn = tx.t.rowsets, tx.t.jobs, tx.t.txns
    parent = txn.alias("root")
    is_parent = (parent.c.id == txn.c.parent_id) & (parent.c.instance == txn.c.instance)
    query = select(txn.c.id, txn.c.status, parent.c.status).select_from(txn.outerjoin(parent, is_parent))
    rows = tx.c.execute(query.where(tx.in_instance(txn.c.id, _ids(writers, TXN))))
    statuses = {row[0]: [status for status in row[1:] if status is not None] for row in rows}  # its own, its parent's
    is_visible = [tx.in_instance(rowset.c.id, list(writers)), rowset.c.state == RowsetState.VISIBLE]
    visible_ids = set(tx.ids(select(rowset.c.id).where(*is_visible)))
    job_ids = set(tx.ids(select(job.c.id).where(tx.in_instance(job.c.id, _ids(writers, JOB)))))
    answers = {}
    for rowset_id, writer in writers.items():
        name = writer or ""
        if rowset_id in visible_ids:
            answers[rowset_id] = (Fenced.IN_USE, "it is visible")
        elif name.startswith(TXN):
            answers[rowset_id] = verdict(statuses.get(name.removeprefix(TXN), ()))
        elif name.startswith(JOB):
            runs = name.removeprefix(JOB) in job_ids
            answers[rowset_id] = (Fenced.IN_USE, "its job runs") if runs else (Fenced.FENCED, "its job is removed")
        else:
            text = f"its mark names {writer!r}, neither a transaction nor a job"
            answers[rowset_id] = (Fenced.UNKNOWN, text)
    return answers


def verdict(statuses: Collection[str]) -> tuple[Fenced, str]:
    """Return whether a prepared rowset may be deleted, by statuses read *after* its writer was aborted.

    Args:
        statuses: of the writing transaction and its parent; empty: no record is left.
    """
    for status in statuses:
        if status not in set(TxnStatus):
            return Fenced.UNKNOWN, f"the status {status!r} of its transaction is unknown; repair or remove the record"
    for status in statuses:
        if status in _COMMITTING:
            return Fenced.IN_USE, f"its transaction is {status}"
    if TxnStatus.PREPARED in statuses:
        return Fenced.IN_USE, "its transaction still runs"
    return Fenced.FENCED, "its transaction is aborted" if statuses else "its transaction left no record"


def readable(tx: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    """Return the prepared rowsets whose writer's record can be read."""
    mark = tx.db.t.mark
    is_prepared = [tx.in_instance(mark.c.id, ids), mark.c.kind == "prepared"]
    writers = {row.id: row.owner_txn for row in tx.c.execute(select(mark.c.id, mark.c.owner_txn).where(*is_prepared))}
    return [rowset for rowset, (answer, _) in judge(tx, writers).items() if answer is not Fenced.UNKNOWN]


def end(tx: CatalogTransaction, txns: Collection[str]) -> None:
    """Free the labels of loads that were just aborted, abort their parts, and mark their records for removal."""
    if not txns:
        return
    txn = tx.t.txns
    tx.change(txn.c.parent_id, txns, txn.c.status == TxnStatus.PREPARED, status=TxnStatus.ABORTED)
    tx.change(tx.t.labels.c.txn_id, txns, active=False)
    tx.mark("txn_label", select(txn.c.id).where(tx.in_instance(txn.c.id, txns)))


def time_out(tx: CatalogTransaction) -> bool:
    """Abort loads whose time is up; return whether there may be more. One that is being ended is skipped."""
    txn = tx.t.txns
    is_running = [txn.c.instance == tx.instance, txn.c.parent_id.is_(None), txn.c.status == TxnStatus.PREPARED]
    expired = select(txn.c.id).where(*is_running, txn.c.timeout_at <= tx.db.now(tx.c)).order_by(txn.c.timeout_at)
    ids = tx.ids(expired.limit(TIMEOUTS_AT_ONCE).with_for_update(skip_locked=True))
    tx.change(txn.c.id, ids, status=TxnStatus.ABORTED)
    end(tx, ids)
    return len(ids) == TIMEOUTS_AT_ONCE


def _ids(writers: Writers, prefix: str) -> list[str]:
    """Return the ids of the writers of one kind: transactions or compactions."""
    names = {writer for writer in writers.values() if writer is not None and writer.startswith(prefix)}
    return sorted(name.removeprefix(prefix) for name in names)
