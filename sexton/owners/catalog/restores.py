"""Restore jobs: write rowsets back from a backup, and make all of them visible at once."""

from collections.abc import Collection, Sequence

from sqlalchemy import select, update

from sexton import contract
from sexton.owners.catalog.errors import RecordNotFound, WrongState
from sexton.owners.catalog.model import RESTORE, Restore, RestoreState, RowsetState
from sexton.owners.catalog.records import CatalogRecords, add, check_seconds, new_id
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.writing import prepare, publish

UNFINISHED = (RowsetState.PREPARED, RowsetState.TMP)
ENDED = (RestoreState.COMPLETED, RestoreState.ABORTED)


class Restores(CatalogRecords):
    """Restore jobs. Their rowsets are announced, written and collected as those of a load are."""

    def start_restore(self, tablets: Sequence[str], vault: str, expiry_seconds: int) -> Restore:
        """Announce a rowset for each tablet (a tablet may occur twice); no file may be written before this returns.

        Args:
            tablets: where the rowsets belong.
            vault: where their files are written.
            expiry_seconds: how long the job may take.
        """
        check_seconds("expiry_seconds", expiry_seconds)
        with self._write() as tx:
            job, expires = new_id(), tx.db.now(tx.c) + expiry_seconds * 1000
            add(tx, tx.t.restore_jobs, [{"id": job, "state": RestoreState.RUNNING, "expires_at": expires}])
            return Restore(id=job, outputs=tuple(prepare(tx, RESTORE + job, tablets, vault, expiry_seconds)))

    def finish_restore(self, job: str) -> None:
        """Make the rowsets of a restore visible, in one transaction.

        Raises:
            contract.Collected: a rowset was fenced or collected: the job took too long.
            RecordNotFound: there is no such job.
            WrongState: the job has ended, or a rowset is not written yet.
        """
        with self._write() as tx:
            _expect_running(tx, job)
            rowset = tx.t.rowsets
            of_job = [tx.in_instance(rowset.c.owner_txn, [RESTORE + job]), rowset.c.state.in_(UNFINISHED)]
            rows = tx.c.execute(select(rowset).where(*of_job).order_by(rowset.c.id)).all()
            contract.commit(tx.c, tx.instance, [row.id for row in rows])
            if unwritten := [row.id for row in rows if row.state != RowsetState.TMP]:
                raise WrongState(f"{', '.join(unwritten[:5])}: not written yet; write it, or abort restore {job}")
            publish(tx, rows)
            end(tx, [job], RestoreState.COMPLETED)

    def abort_restore(self, job: str) -> None:
        """End a restore without its data; its files are deleted after its time and the retention."""
        with self._write() as tx:
            _expect_running(tx, job)
            end(tx, [job], RestoreState.ABORTED)


def end(tx: CatalogTransaction, jobs: Collection[str], state: RestoreState) -> None:
    """End restore jobs that run, and mark their records."""
    t = tx.t.restore_jobs
    is_running = [tx.in_instance(t.c.id, jobs), t.c.state == RestoreState.RUNNING]
    ended = tx.c.execute(update(t).where(*is_running).values(state=state).returning(t.c.id)).scalars().all()
    contract.mark(tx.c, tx.instance, "restore_job", [contract.NewMark(id=id_, vault=None) for id_ in ended])


def _expect_running(tx: CatalogTransaction, job: str) -> None:
    """Lock a restore job that runs."""
    t = tx.t.restore_jobs
    state = tx.c.execute(select(t.c.state).where(tx.in_instance(t.c.id, [job])).with_for_update()).scalar_one_or_none()
    if state is None:
        raise RecordNotFound(f"there is no restore job {job}")
    if state != RestoreState.RUNNING:
        raise WrongState(f"restore job {job} is {state}")
