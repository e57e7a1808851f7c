"""Copy jobs: load files of a stage into a table, each file once; the commit of the load finishes its copy jobs.

A staged file is marked when it is announced. A copy job that begins marks it again, so that its retention starts then;
not a file whose mark was discarded. A job that finishes removes the file's mark: the mark of the job deletes the file
(docs/adr/0042).
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import delete, select, update

from sexton import contract
from sexton.database.contract_errors import check_text
from sexton.database.rows import in_list
from sexton.kernel.errors import BadInput
from sexton.owners.catalog import discards
from sexton.owners.catalog.errors import RecordNotFound, WrongState
from sexton.owners.catalog.model import CopyJob, CopyState, ExternalFile
from sexton.owners.catalog.records import CatalogRecords, add, check_seconds, ensure_found, lock_against_drop, new_id
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.stages import locked_stage, mark_files


class Copies(CatalogRecords):
    """Copy jobs, from their begin to the commit that finishes them, or to their cancellation."""

    def begin_copy(self, stage: str, table: str, files: Sequence[str], timeout_seconds: int) -> CopyJob:
        """Begin to load files of an internal stage; return the files that the table does not have yet.

        Without such a file there is no job, and its id is empty. Until the job ends, or its time is up, none of its
        files is deleted.

        Args:
            stage: an internal stage.
            table: the table that is loaded.
            files: ids of staged files.
            timeout_seconds: how long the job may take.

        Raises:
            WrongState: a file was loaded by a finished job, or is being deleted; or the stage is external.
            RecordNotFound: there is no such stage, table or file.
        """
        _check(files, timeout_seconds)
        with self._write() as tx:
            if locked_stage(tx, stage).vault is None:
                raise WrongState(f"stage {stage} is external; begin an external copy")
            rows = {row.id: dict(row._mapping) for row in _locked_files(tx, files) if row.stage_id == stage}
            ensure_found(tx.t.staged_files, files, rows)
            new = sorted(set(rows) - _copied(tx, stage, table, rows))
            # A claim of a file comes before this removal, and refuses it, or after: then the new mark is too young.
            marked = _remove_marks(tx, new)
            if ended := _ended(tx, new):
                raise WrongState(f"{', '.join(ended[:5])}: loaded already, or being deleted")
            mark_files(tx, [rows[id_] for id_ in marked])
            return _begin(tx, stage, table, [(id_, "") for id_ in new], timeout_seconds, internal=True)

    def begin_external_copy(
        self, stage: str, table: str, files: Sequence[ExternalFile], timeout_seconds: int
    ) -> CopyJob:
        """Begin to load files of an external stage; return the keys of those that the table does not have yet."""
        _check(files, timeout_seconds)
        check_text(*(part for file in files for part in (file.key, file.etag)))
        with self._write() as tx:
            if locked_stage(tx, stage).vault is not None:
                raise WrongState(f"stage {stage} is internal; begin a copy of its files by their ids")
            copied = tx.t.copied_files
            of_table = _of_table(tx, stage, table)
            is_named = in_list(tx.db, copied.c.file, {file.key for file in files})
            known = {(r.file, r.etag) for r in tx.c.execute(select(copied).where(*of_table, is_named))}
            new = sorted({(file.key, file.etag) for file in files} - known)
            return _begin(tx, stage, table, new, timeout_seconds, internal=False)

    def cancel_copy(self, job: str) -> None:
        """End a copy job without its data; another job may load its files.

        Raises:
            RecordNotFound: it was cancelled before, or took too long.
            WrongState: it is finished.
        """
        with self._write() as tx:
            [row] = _locked(tx, [job])
            forget_jobs(tx, [row.id])


def finish(tx: CatalogTransaction, jobs: Collection[str]) -> None:
    """Finish copy jobs in the transaction that commits their load: their staged files are garbage from now on.

    Raises:
        RecordNotFound: a job was cancelled, or took too long.
        WrongState: a job is finished already.
    """
    jobs = [job for job in jobs if job]
    rows = _locked(tx, jobs)
    is_job = tx.in_instance(tx.t.copy_jobs.c.id, jobs)
    tx.c.execute(update(tx.t.copy_jobs).where(is_job).values(state=CopyState.FINISHED))
    internal = [row for row in rows if row.internal]
    copied = tx.t.copied_files
    files = tx.ids(select(copied.c.file).where(tx.in_instance(copied.c.job_id, [row.id for row in internal])))
    # The job was LOADING until now, so no claim has taken one. Their rows are locked: no job begins with one of them.
    locked = [row.id for row in _locked_files(tx, files)]
    _remove_marks(tx, locked)
    discards.forget(tx, "stage_file", locked)
    for kind, of_kind in (("copy_job", internal), ("external_copy_job", [row for row in rows if not row.internal])):
        new_marks = [contract.NewMark(id=r.id, vault=None, parent=("stage", r.stage_id)) for r in of_kind]
        contract.mark(tx.c, tx.instance, kind, new_marks)


def forget_jobs(tx: CatalogTransaction, jobs: Sequence[str]) -> None:
    """Remove the records of copy jobs, and of what they copied."""
    tx.remove(tx.t.copied_files.c.job_id, jobs)
    tx.remove(tx.t.copy_jobs.c.id, jobs)


def _begin(
    tx: CatalogTransaction,
    stage: str,
    table: str,
    files: Sequence[tuple[str, str]],
    timeout_seconds: int,
    *,
    internal: bool,
) -> CopyJob:
    lock_against_drop(tx, tx.t.tables, [table])
    if not files:
        return CopyJob(id="", files=())
    job = new_id()
    timeout_at = tx.db.now(tx.c) + timeout_seconds * 1000
    row = {"id": job, "stage_id": stage, "table_id": table, "internal": internal, "state": CopyState.LOADING}
    add(tx, tx.t.copy_jobs, [{**row, "timeout_at": timeout_at}])
    of_job = {"stage_id": stage, "table_id": table, "job_id": job}
    add(tx, tx.t.copied_files, [{**of_job, "file": file, "etag": etag} for file, etag in files])
    return CopyJob(id=job, files=tuple(file for file, _ in files))


def _of_table(tx: CatalogTransaction, stage: str, table: str) -> list[Any]:
    copied = tx.t.copied_files
    return [tx.in_instance(copied.c.stage_id, [stage]), copied.c.table_id == table]


def _copied(tx: CatalogTransaction, stage: str, table: str, files: Collection[str]) -> set[str]:
    """Return the files that a job loads, or has loaded, into the table."""
    copied = tx.t.copied_files
    return set(tx.ids(select(copied.c.file).where(*_of_table(tx, stage, table), in_list(tx.db, copied.c.file, files))))


def _locked(tx: CatalogTransaction, jobs: Collection[str]) -> Sequence[Any]:
    """Return the rows of jobs that run, locked."""
    t = tx.t.copy_jobs
    rows = tx.c.execute(select(t).where(tx.in_instance(t.c.id, jobs)).order_by(t.c.id).with_for_update()).all()
    if missing := sorted(set(jobs) - {row.id for row in rows}):
        raise RecordNotFound(f"there is no copy job {', '.join(missing[:5])}: it was cancelled, or took too long")
    if ended := [row.id for row in rows if row.state != CopyState.LOADING]:
        raise WrongState(f"copy job {', '.join(ended[:5])} is finished")
    return rows


def _locked_files(tx: CatalogTransaction, files: Collection[str]) -> Sequence[Any]:
    """Return the rows of staged files, locked: only one transaction at a time decides what becomes of a file."""
    file = tx.t.staged_files
    return tx.c.execute(
        select(file).where(tx.in_instance(file.c.id, files)).order_by(file.c.id).with_for_update()
    ).all()


def _remove_marks(tx: CatalogTransaction, files: Collection[str]) -> Sequence[str]:
    """Remove the marks of staged files that nothing has claimed; return these files, in the order of their ids."""
    mark = tx.db.t.mark
    is_waiting = [tx.in_instance(mark.c.id, files), mark.c.kind == "stage_file", mark.c.state == "MARKED"]
    return sorted(map(str, tx.c.execute(delete(mark).where(*is_waiting).returning(mark.c.id)).scalars()))


def _ended(tx: CatalogTransaction, files: Collection[str]) -> list[str]:
    """Return the files that still have a mark, as it is claimed, and those that a finished job has loaded.

    A file without a mark, because an operator discarded it, may be loaded.
    """
    mark, copied, job = tx.db.t.mark, tx.t.copied_files, tx.t.copy_jobs
    claimed = select(mark.c.id).where(tx.in_instance(mark.c.id, files), mark.c.kind == "stage_file")
    is_own_job = (job.c.id == copied.c.job_id) & (job.c.instance == copied.c.instance)
    is_loaded = [tx.in_instance(copied.c.file, files), job.c.internal, job.c.state == CopyState.FINISHED]
    return sorted({*tx.ids(claimed), *tx.ids(select(copied.c.file).join(job, is_own_job).where(*is_loaded))})


def _check(files: Sequence[object], seconds: int) -> None:
    if not files:
        raise BadInput("a copy job needs at least one file")
    check_seconds("timeout_seconds", seconds)
