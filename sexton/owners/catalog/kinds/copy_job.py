"""Marks of finished copy jobs: the staged files that they loaded, then their records. External files stay."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog import staged
from sexton.owners.catalog.copies import forget_jobs
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import CopyState
from sexton.owners.catalog.scope import CatalogTransaction


def _files_of(tx: CatalogTransaction, jobs: Sequence[str]) -> Mapping[str, Sequence[Any]]:
    """Return job → the staged files that it has loaded and that have a record."""
    copied = tx.t.copied_files
    jobs_of_file: dict[str, list[str]] = defaultdict(list)
    for job, file in tx.c.execute(select(copied.c.job_id, copied.c.file).where(tx.in_instance(copied.c.job_id, jobs))):
        jobs_of_file[file].append(job)
    files: dict[str, list[Any]] = defaultdict(list)
    for row in staged.files(tx, jobs_of_file):
        for job in jobs_of_file[row.id]:
            files[job].append(row)
    return files


def _expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    files = _files_of(tx, [mark.id for mark in marks])
    expansions = {mark.ref: staged.expansion(files.get(mark.id, ())) for mark in marks}
    return expansions | _waiting(tx, marks)


def _expand_external(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    return {mark.ref: Expansion() for mark in marks} | _waiting(tx, marks)


def _waiting(tx: CatalogTransaction, marks: Sequence[DueMark]) -> dict[Ref, Expansion]:
    """Return the jobs whose stage was dropped: an undrop restores the stage whole, or not at all."""
    waiting = staged.in_dropped_stage(tx, tx.t.copy_jobs, [mark.id for mark in marks])
    return {mark.ref: staged.WAITS for mark in marks if mark.id in waiting}


def _running(tx: CatalogTransaction, ids: Sequence[str]) -> set[str]:
    """Return the jobs that are not finished."""
    job = tx.t.copy_jobs
    return set(tx.ids(select(job.c.id).where(tx.in_instance(job.c.id, ids), job.c.state != CopyState.FINISHED)))


def _live(tx: CatalogTransaction, ids: Sequence[str]) -> set[str]:
    """Return the jobs that run, and those with a file that another job still reads."""
    files = _files_of(tx, ids)
    loading = set(staged.loading(tx, {row.id for rows in files.values() for row in rows}))
    return _running(tx, ids) | {job for job, rows in files.items() if any(row.id in loading for row in rows)}


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    finished_ids = sorted(set(ids) - _running(tx, ids))
    files = {row.id for rows in _files_of(tx, finished_ids).values() for row in rows}
    tx.remove(tx.t.staged_files.c.id, files)
    forget_jobs(tx, finished_ids)


def _forget_external(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    forget_jobs(tx, sorted(set(ids) - _running(tx, ids)))


KIND = CatalogKind(name="copy_job", expand=_expand, forget=_forget, live=_live)
EXTERNAL = CatalogKind(name="external_copy_job", expand=_expand_external, forget=_forget_external, live=_running)
