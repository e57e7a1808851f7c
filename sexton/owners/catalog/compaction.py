"""Compactions: several rowsets of a tablet become one, and the commit that replaces them marks them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, update

from sexton import contract
from sexton.kernel.errors import BadInput
from sexton.owners.catalog.errors import RecordNotFound, Uncovered, WrongState
from sexton.owners.catalog.model import JOB, Job, RowsetState
from sexton.owners.catalog.records import (
    CatalogRecords,
    add,
    check_seconds,
    check_some,
    ensure_found,
    lock_tablets_against_drop,
    new_id,
    update_counters,
)
from sexton.owners.catalog.rowsets import uncovered
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.writing import prepare

EXPIRY_SECONDS = 3_600
"""Time that a job has by default."""


class Compaction(CatalogRecords):
    """Compaction jobs; a tablet may have several."""

    def start_compaction(
        self,
        tablet: str,
        inputs: Sequence[str],
        vault: str,
        *,
        versions: tuple[int, int] | None = None,
        expiry_seconds: int = EXPIRY_SECONDS,
    ) -> Job:
        """Announce a rowset that replaces the inputs; no file may be written before this has returned.

        Args:
            tablet: the tablet of the inputs.
            inputs: visible rowsets.
            vault: the vault of the output.
            versions: the first and the last version that the output will hold; by default those of the inputs.
            expiry_seconds: how long the job may take.
        """
        check_seconds("expiry_seconds", expiry_seconds)
        with self._write() as tx:
            rows = _inputs(tx, tablet, inputs)
            all_first = min(r.first_version for r in rows)
            all_last = max(r.last_version for r in rows)
            first, last = versions or (all_first, all_last)
            if not all_first <= first <= last <= all_last:
                raise BadInput(
                    f"versions {first} to {last} are not within those of the inputs: {all_first} to {all_last}"
                )
            job, expires = new_id(), tx.db.now(tx.c) + expiry_seconds * 1000
            [output] = prepare(tx, JOB + job, [tablet], vault, expiry_seconds)
            is_output = tx.in_instance(tx.t.rowsets.c.id, [output.rowset])
            tx.c.execute(update(tx.t.rowsets).where(is_output).values(first_version=first, last_version=last))
            row = {"id": job, "tablet_id": tablet, "output_id": output.rowset, "inputs": list(inputs)}
            add(tx, tx.t.jobs, [{**row, "expires_at": expires}])
            return Job(id=job, inputs=tuple(inputs), output=output)

    def finish_compaction(self, job: str) -> None:
        """Make the output visible and mark the inputs, in one transaction.

        Raises:
            contract.Collected: the output was fenced or collected: the job took too long.
            RecordNotFound: the job was removed.
            WrongState: the output is not written, or an input is no longer visible.
            Uncovered: the output does not hold all versions that the inputs hold.
        """
        with self._write() as tx:
            row = tx.c.execute(
                select(tx.t.jobs).where(tx.in_instance(tx.t.jobs.c.id, [job])).with_for_update()
            ).one_or_none()
            if row is None:
                raise RecordNotFound(f"there is no job {job}: it has ended, or it was removed because it took too long")
            lock_tablets_against_drop(tx, [row.tablet_id])
            inputs = _inputs(tx, row.tablet_id, row.inputs)
            contract.commit(tx.c, tx.instance, [row.output_id])
            rowset = tx.t.rowsets
            is_written = [tx.in_instance(rowset.c.id, [row.output_id]), rowset.c.state == RowsetState.TMP]
            if tx.c.execute(update(rowset).where(*is_written).values(state=RowsetState.VISIBLE)).rowcount != 1:
                raise WrongState(f"the output {row.output_id} of job {job} is not written yet")
            tx.c.execute(
                update(rowset).where(tx.in_instance(rowset.c.id, row.inputs)).values(state=RowsetState.COMPACTED)
            )
            if lost := uncovered(tx, row.inputs):
                raise Uncovered(f"job {job}: versions of {', '.join(lost[:5])} would be in no visible rowset")
            mark(tx, "compacted", inputs)
            tx.c.execute(delete(tx.t.jobs).where(tx.in_instance(tx.t.jobs.c.id, [job])))
            update_counters(tx, [row.tablet_id])

    def drop_rowset(self, *rowsets: str) -> None:
        """Drop single visible rowsets; their versions are no longer needed."""
        check_some("rowsets", rowsets)
        with self._write() as tx:
            rows = _visible(tx, rowsets)
            lock_tablets_against_drop(tx, sorted({r.tablet_id for r in rows}))
            tx.c.execute(
                update(tx.t.rowsets).where(tx.in_instance(tx.t.rowsets.c.id, rowsets)).values(state=RowsetState.DROPPED)
            )
            mark(tx, "dropped", rows)
            update_counters(tx, {r.tablet_id for r in rows})


def mark(tx: CatalogTransaction, kind: str, rows: Sequence[Any]) -> None:
    """Mark rowsets with their tablets as parents. The marks name no files: ``expand`` does so when they are due."""
    new_marks = [
        contract.NewMark(id=r.id, vault=r.vault, bytes=r.bytes, parent=("tablet", r.tablet_id), owner_txn=r.owner_txn)
        for r in rows
    ]
    contract.mark(tx.c, tx.instance, kind, new_marks)


def _inputs(tx: CatalogTransaction, tablet: str, ids: Sequence[str]) -> Sequence[Any]:
    rows = _visible(tx, ids)
    if not rows or any(r.tablet_id != tablet for r in rows):
        raise WrongState(f"the inputs of a compaction must be one or more rowsets of its own tablet {tablet}")
    return rows


def _visible(tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[Any]:
    """Return visible rowsets, locked until the transaction ends."""
    rowset = tx.t.rowsets
    rows = tx.c.execute(
        select(rowset).where(tx.in_instance(rowset.c.id, ids)).order_by(rowset.c.id).with_for_update()
    ).all()
    ensure_found(rowset, ids, (r.id for r in rows))
    if hidden := [f"{r.id} is {r.state}" for r in rows if r.state != RowsetState.VISIBLE]:
        raise WrongState(f"{', '.join(hidden[:5])}; only visible rowsets are compacted or dropped")
    return rows
