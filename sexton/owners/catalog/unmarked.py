"""Find records that should be deleted but have no mark, because an operator discarded it: nothing deletes them."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Select, Table, and_, case, exists, literal, select

from sexton.owners.catalog import labels, parents
from sexton.owners.catalog.model import FINISHED, CopyState, RowsetState
from sexton.owners.catalog.restores import ENDED
from sexton.owners.catalog.scope import CatalogTransaction

MARKS_OF_STATES = (
    ("prepared", (RowsetState.PREPARED, RowsetState.TMP)),
    ("compacted", (RowsetState.COMPACTED,)),
    ("dropped", (RowsetState.DROPPED,)),
)
"""Kind of a mark, and the states of the rowsets that have such a mark."""
STAYS = "it has ended, but its record has no mark and stays"


def queries(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    """Yield (kind of record, a query that selects their ids and what is wrong)."""
    if tx.is_dropped:  # its one mark deletes everything
        return
    t = tx.t
    for kind, records in (("table", t.tables), ("stage", t.stages)):
        again = "undrop it and drop it again"
        yield kind, _without_mark(tx, kind, records, records.c.dropped, f"it was dropped, but has no mark: {again}")
    for kind, records in (("index", t.indexes), ("partition", t.partitions)):
        in_table = exists().where(t.tables.c.id == records.c.table_id, t.tables.c.instance == tx.instance)
        is_dropped = and_(records.c.dropped, in_table.where(~t.tables.c.dropped))
        again = "undrop it and drop it again, or drop its table"
        yield kind, _without_mark(tx, kind, records, is_dropped, f"it was dropped, but has no mark: {again}")
    yield "stage_file", _staged_files(tx)
    yield from _copy_jobs(tx)
    yield from _rowsets(tx)
    has_ended = and_(t.txns.c.parent_id.is_(None), t.txns.c.status.in_(FINISHED))
    yield "txn", _without_mark(tx, labels.KIND, t.txns, has_ended, STAYS)
    yield "restore_job", _without_mark(tx, "restore_job", t.restore_jobs, t.restore_jobs.c.state.in_(ENDED), STAYS)


def _without_mark(
    tx: CatalogTransaction,
    kind: str,
    records: Table,
    condition: ColumnElement[bool],
    detail: str | ColumnElement[str],
) -> Select[Any]:
    is_unmarked = ~tx.has_mark(tx.db.t.mark, kind, records.c.id)
    return select(records.c.id, literal(detail) if isinstance(detail, str) else detail).where(
        tx.in_instance(records.c.id), condition, is_unmarked
    )


def _in_stage(tx: CatalogTransaction, records: Table) -> ColumnElement[bool]:
    """Return the condition that the stage of a record is not dropped: then its mark would delete the record, too."""
    stage = tx.t.stages
    return exists().where(stage.c.id == records.c.stage_id, stage.c.instance == tx.instance, ~stage.c.dropped)


def _staged_files(tx: CatalogTransaction) -> Select[Any]:
    """Select files that no job loads, nor a finished job's mark deletes.

    The jobs of each file are looked up by the file alone, whatever statistics PostgreSQL has.
    """
    file, copied, job = tx.t.staged_files, tx.t.copied_files, tx.t.copy_jobs
    is_own_job = (job.c.id == copied.c.job_id) & (job.c.instance == copied.c.instance) & job.c.internal
    of_file = [copied.c.file == file.c.id, copied.c.instance + "" == tx.instance]
    jobs_of_file = select(literal(1)).select_from(copied.join(job, is_own_job)).where(*of_file).limit(1)
    is_handled = (job.c.state == CopyState.LOADING) | tx.has_mark(tx.db.t.mark, "copy_job", job.c.id)
    is_left = and_(_in_stage(tx, file), jobs_of_file.where(is_handled).scalar_subquery().is_(None))
    loaded = "it was loaded, but has no mark: drop its stage"
    staged = "no copy job loads it, and it has no mark: load it, unless its file is deleted already, or drop its stage"
    text = case((jobs_of_file.scalar_subquery().is_not(None), literal(loaded)), else_=literal(staged))
    return _without_mark(tx, "stage_file", file, is_left, text)


def _copy_jobs(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    job = tx.t.copy_jobs
    is_finished = and_(job.c.state == CopyState.FINISHED, _in_stage(tx, job))
    for kind, is_of_kind in (("copy_job", job.c.internal), ("external_copy_job", ~job.c.internal)):
        text = "it is finished, but has no mark: drop its stage"
        yield kind, _without_mark(tx, kind, job, and_(is_finished, is_of_kind), text)


def _rowsets(tx: CatalogTransaction) -> Iterator[tuple[str, Select[Any]]]:
    rowset, tablet = tx.t.rowsets, tx.t.tablets
    in_use = exists().where(tx.is_own_tablet, parents.standing(tx), tablet.c.instance == tx.instance)
    for kind, states in MARKS_OF_STATES:
        text = (
            f"it is {states[-1]}, but has no mark {kind}: it is deleted when its table, index or partition is dropped"
        )
        yield "rowset", _without_mark(tx, kind, rowset, and_(rowset.c.state.in_(states), in_use), text)
