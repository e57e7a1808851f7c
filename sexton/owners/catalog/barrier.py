"""The barrier of prepared rowsets: abort their writers first, and read the writers' states in a later statement.

The engine has set the marks to FENCED, so no commit of them can succeed from now on; an earlier commit has removed its
mark. Two cases remain, and both keep the rowset: a load between its two phases, and one whose record is unreadable.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import exists, select, update

from sexton.marks.model import Fenced
from sexton.owners.catalog import labels
from sexton.owners.catalog.model import JOB, TXN, RowsetState, TxnStatus
from sexton.owners.catalog.policy import verdict
from sexton.owners.catalog.scope import CatalogTransaction

FENCE_BATCH = 256
"""Prepared rowsets whose writers are aborted in one transaction."""
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
    is_running_root = [
        tx.in_instance(txn.c.id, root_ids),
        txn.c.parent_id.is_(None),
        txn.c.status == TxnStatus.PREPARED,
    ]
    aborted = tx.c.execute(update(txn).where(*is_running_root).values(status=TxnStatus.ABORTED).returning(txn.c.id))
    labels.aborted(tx, list(aborted.scalars()))
    parent = txn.alias("root")
    has_no_parent_record = ~exists().where(parent.c.id == txn.c.parent_id, parent.c.instance == txn.c.instance)
    is_running_part = [
        tx.in_instance(txn.c.id, txn_ids),
        txn.c.parent_id.is_not(None),
        has_no_parent_record,
        txn.c.status == TxnStatus.PREPARED,
    ]
    tx.c.execute(update(txn).where(*is_running_part).values(status=TxnStatus.ABORTED))
    tx.remove(job.c.id, _ids(writers, JOB))


def judge(tx: CatalogTransaction, writers: Writers) -> dict[str, tuple[Fenced, str]]:
    """Return for each rowset whether its writer can still commit it, as the records are now."""
    rowset, job = tx.t.rowsets, tx.t.jobs
    statuses = _statuses(tx, _ids(writers, TXN))
    is_visible = [tx.in_instance(rowset.c.id, list(writers)), rowset.c.state == RowsetState.VISIBLE]
    visible_ids = set(tx.ids(select(rowset.c.id).where(*is_visible)))
    job_ids = set(tx.ids(select(job.c.id).where(tx.in_instance(job.c.id, _ids(writers, JOB)))))
    answers = {}
    for rowset_id, writer in writers.items():
        if rowset_id in visible_ids:
            answers[rowset_id] = (Fenced.IN_USE, "it is visible")
        else:
            answers[rowset_id] = _answer(writer, statuses, job_ids)
    return answers


def _answer(
    writer: str | None, statuses: Mapping[str, Collection[str]], job_ids: Collection[str]
) -> tuple[Fenced, str]:
    """Return the answer for a rowset that is not visible.

    Args:
        writer: the ``owner_txn`` of its mark.
        statuses: transaction id → its status and its parent's.
        job_ids: the compaction jobs that have a record.
    """
    if writer is not None and writer.startswith(TXN):
        return verdict(statuses.get(writer.removeprefix(TXN), ()))
    if writer is not None and writer.startswith(JOB):
        if writer.removeprefix(JOB) in job_ids:
            return Fenced.IN_USE, "its job runs"
        return Fenced.FENCED, "its job is removed"
    return Fenced.UNKNOWN, f"its mark names {writer!r}, neither a transaction nor a job"


def _statuses(tx: CatalogTransaction, txn_ids: Collection[str]) -> dict[str, list[str]]:
    """Return transaction id → its status, and its parent's if it has one."""
    txn = tx.t.txns
    parent = txn.alias("root")
    is_parent = (parent.c.id == txn.c.parent_id) & (parent.c.instance == txn.c.instance)
    query = select(txn.c.id, txn.c.status, parent.c.status.label("parent_status"))
    rows = tx.c.execute(query.select_from(txn.outerjoin(parent, is_parent)).where(tx.in_instance(txn.c.id, txn_ids)))
    return {row.id: [status for status in (row.status, row.parent_status) if status is not None] for row in rows}


def _ids(writers: Writers, prefix: str) -> list[str]:
    """Return the ids of the writers of one kind: transactions or compactions."""
    names = {writer for writer in writers.values() if writer is not None and writer.startswith(prefix)}
    return sorted(name.removeprefix(prefix) for name in names)
