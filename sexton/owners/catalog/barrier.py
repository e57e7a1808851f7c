"""The barrier: whoever writes a prepared rowset is aborted first, and looked at again by a later statement.

The engine has made the marks FENCED, so no commit of them can succeed any more; a commit that came before removed its
mark. What is left open is a load between its two phases, or one whose record nobody can read: both are kept.
"""

from collections.abc import Collection, Mapping

from sqlalchemy import exists, select, update

from sexton.marks.model import Fenced
from sexton.owners.catalog import labels
from sexton.owners.catalog.model import JOB, TXN, RowsetState, TxnStatus
from sexton.owners.catalog.policy import verdict
from sexton.owners.catalog.scope import CatalogTransaction

FENCE_BATCH = 256
"""Prepared rowsets whose owners are aborted in one transaction."""
Owners = Mapping[str, str | None]
"""Rowset id → the ``owner_txn`` of its mark."""


def fenced(s: CatalogTransaction, ids: Collection[str]) -> dict[str, str | None]:
    """Return those of the marks that are FENCED, with their owners; one that was committed between has none."""
    mark = s.db.t.mark
    ours = [s.mine(mark.c.id, ids), mark.c.kind == "prepared", mark.c.state == "FENCED"]
    return {row.id: row.owner_txn for row in s.c.execute(select(mark.c.id, mark.c.owner_txn).where(*ours))}


def abort(s: CatalogTransaction, owners: Owners) -> None:
    """Abort the running loads among the owners, those above them, and remove the compactions; nobody else."""
    txn, job = s.t.txns, s.t.jobs
    wanted = _ids(owners, TXN)
    above = select(txn.c.parent_id).where(s.mine(txn.c.id, wanted), txn.c.parent_id.is_not(None))
    roots = [*wanted, *s.ids(above)]
    running = [s.mine(txn.c.id, roots), txn.c.parent_id.is_(None), txn.c.status == TxnStatus.PREPARED]
    ended = s.c.execute(update(txn).where(*running).values(status=TxnStatus.ABORTED).returning(txn.c.id))
    labels.aborted(s, list(ended.scalars()))
    root = txn.alias("root")
    orphan = ~exists().where(root.c.id == txn.c.parent_id, root.c.instance == txn.c.instance)
    alone = [s.mine(txn.c.id, wanted), txn.c.parent_id.is_not(None), orphan, txn.c.status == TxnStatus.PREPARED]
    s.c.execute(update(txn).where(*alone).values(status=TxnStatus.ABORTED))
    s.remove(job.c.id, _ids(owners, JOB))


def judge(s: CatalogTransaction, owners: Owners) -> dict[str, tuple[Fenced, str]]:
    """Look at the owners as they are now and answer for each rowset."""
    txn, rowset = s.t.txns, s.t.rowsets
    root = txn.alias("root")
    joined = txn.outerjoin(root, (root.c.id == txn.c.parent_id) & (root.c.instance == txn.c.instance))
    found = select(txn.c.id, txn.c.status, root.c.status.label("above")).select_from(joined)
    statuses = {
        row.id: [status for status in (row.status, row.above) if status is not None]
        for row in s.c.execute(found.where(s.mine(txn.c.id, _ids(owners, TXN))))
    }
    shown = set(
        s.ids(select(rowset.c.id).where(s.mine(rowset.c.id, list(owners)), rowset.c.state == RowsetState.VISIBLE))
    )
    jobs = set(s.ids(select(s.t.jobs.c.id).where(s.mine(s.t.jobs.c.id, _ids(owners, JOB)))))
    answers = {}
    for rowset_id, owner in owners.items():
        if rowset_id in shown:
            answers[rowset_id] = (Fenced.IN_USE, "it is visible")
        elif owner is not None and owner.startswith(TXN):
            answers[rowset_id] = verdict(statuses.get(owner.removeprefix(TXN), ()))
        elif owner is not None and owner.startswith(JOB):
            runs = owner.removeprefix(JOB) in jobs
            answers[rowset_id] = (Fenced.IN_USE, "its job runs") if runs else (Fenced.FENCED, "its job is removed")
        else:
            answers[rowset_id] = (Fenced.UNKNOWN, f"its mark names {owner!r}, neither a transaction nor a job")
    return answers


def _ids(owners: Owners, kind: str) -> list[str]:
    return sorted({o.removeprefix(kind) for o in owners.values() if o is not None and o.startswith(kind)})
