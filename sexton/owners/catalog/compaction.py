"""Compactions: several rowsets of a tablet become one; what they replace is marked in the commit that replaces it."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, select, update

from sexton import contract
from sexton.owners.catalog.errors import RecordNotFound, Uncovered, WrongState
from sexton.owners.catalog.model import JOB, Job, RowsetState
from sexton.owners.catalog.records import CatalogRecords, add, count, found, mint, stand_tablets
from sexton.owners.catalog.rowsets import uncovered
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.catalog.writing import prepare

EXPIRY_SECONDS = 3_600


class Compaction(CatalogRecords):
    """Jobs; a tablet may have several."""

    def start_compaction(
        self,
        tablet: str,
        inputs: Sequence[str],
        vault: str,
        *,
        versions: tuple[int, int] | None = None,
        expiry_seconds: int = EXPIRY_SECONDS,
    ) -> Job:
        """Announce a rowset that is to replace the inputs; nothing may be written before this has returned.

        Args:
            tablet: whose rowsets they are.
            inputs: visible rowsets.
            vault: where the output goes.
            versions: the first and the last version the output will hold; by default all from the inputs.
            expiry_seconds: how long it may take.
        """
        with self._write() as s:
            rows = _inputs(s, tablet, inputs)
            first = min(r.first_version for r in rows)
            last = max(r.last_version for r in rows)
            job, expires = mint(), s.db.now(s.c) + expiry_seconds * 1000
            [output] = prepare(s, JOB + job, [tablet], vault, expiry_seconds)
            held = dict(zip(("first_version", "last_version"), versions or (first, last), strict=True))
            s.c.execute(update(s.t.rowsets).where(s.mine(s.t.rowsets.c.id, [output.rowset])).values(**held))
            row = {"id": job, "tablet_id": tablet, "output_id": output.rowset, "inputs": list(inputs)}
            add(s, s.t.jobs, [{**row, "expires_at": expires}])
            return Job(id=job, inputs=tuple(inputs), output=output)

    def finish_compaction(self, job: str) -> None:
        """Show the output and mark the inputs, in one transaction.

        Raises:
            contract.Collected: the output was fenced or collected: the job took too long.
            NotFound: the job was removed.
            WrongState: the output is not written, or an input is not visible any more.
            Uncovered: the output does not hold all that the inputs hold.
        """
        with self._write() as s:
            row = s.c.execute(select(s.t.jobs).where(s.mine(s.t.jobs.c.id, [job])).with_for_update()).one_or_none()
            if row is None:
                raise RecordNotFound(f"there is no job {job}: it has ended, or it was removed because it took too long")
            stand_tablets(s, [row.tablet_id])
            inputs = _inputs(s, row.tablet_id, row.inputs)
            contract.commit(s.c, s.instance, [row.output_id])
            rowset = s.t.rowsets
            written = [s.mine(rowset.c.id, [row.output_id]), rowset.c.state == RowsetState.TMP]
            if s.c.execute(update(rowset).where(*written).values(state=RowsetState.VISIBLE)).rowcount != 1:
                raise WrongState(f"the output {row.output_id} of job {job} is not written yet")
            s.c.execute(update(rowset).where(s.mine(rowset.c.id, row.inputs)).values(state=RowsetState.COMPACTED))
            if lost := uncovered(s, row.inputs):
                raise Uncovered(f"job {job}: versions of {', '.join(lost[:5])} would be in no visible rowset")
            mark(s, "compacted", inputs)
            s.c.execute(delete(s.t.jobs).where(s.mine(s.t.jobs.c.id, [job])))
            count(s, [row.tablet_id])

    def drop_rowset(self, *rowsets: str) -> None:
        """Drop visible rowsets by themselves; their versions are not wanted any more."""
        with self._write() as s:
            rows = _visible(s, rowsets)
            stand_tablets(s, sorted({r.tablet_id for r in rows}))
            s.c.execute(update(s.t.rowsets).where(s.mine(s.t.rowsets.c.id, rowsets)).values(state=RowsetState.DROPPED))
            mark(s, "dropped", rows)
            count(s, {r.tablet_id for r in rows})


def mark(s: CatalogTransaction, kind: str, rows: Sequence[Any]) -> None:
    """Mark rowsets with their tablets as parents; their files are named when they are due."""
    new = [
        contract.NewMark(id=r.id, vault=r.vault, bytes=r.bytes, parent=("tablet", r.tablet_id), owner_txn=r.owner_txn)
        for r in rows
    ]
    contract.mark(s.c, s.instance, kind, new)


def _inputs(s: CatalogTransaction, tablet: str, ids: Sequence[str]) -> Sequence[Any]:
    rows = _visible(s, ids)
    if not rows or any(r.tablet_id != tablet for r in rows):
        raise WrongState(f"a compaction takes one or more rowsets of its own tablet {tablet}")
    return rows


def _visible(s: CatalogTransaction, ids: Sequence[str]) -> Sequence[Any]:
    """Return visible rowsets, locked until the transaction ends."""
    rowset = s.t.rowsets
    rows = s.c.execute(select(rowset).where(s.mine(rowset.c.id, ids)).order_by(rowset.c.id).with_for_update()).all()
    found(rowset, ids, (r.id for r in rows))
    if hidden := [f"{r.id} is {r.state}" for r in rows if r.state != RowsetState.VISIBLE]:
        raise WrongState(f"{', '.join(hidden[:5])}; only visible rowsets are compacted or dropped")
    return rows
