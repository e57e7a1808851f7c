"""Find staged files by their records: where they are, and whether a copy job reads them."""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Table, and_, select

from sexton.kernel.errors import BadInput
from sexton.marks.model import Expansion, Place, Reason, Ref
from sexton.owners.catalog.layout import staged_key
from sexton.owners.catalog.model import CopyState
from sexton.owners.catalog.scope import CatalogTransaction

WAITS = Expansion(waits="its dropped stage")


def files(tx: CatalogTransaction, ids: Collection[str]) -> Sequence[Any]:
    """Return (id, stage_id, bytes, vault) of staged files."""
    file, stage = tx.t.staged_files, tx.t.stages
    query = select(file.c.id, file.c.stage_id, file.c.bytes, stage.c.vault).join(stage, tx.is_own_stage)
    return tx.c.execute(query.where(tx.in_instance(file.c.id, ids))).all()


def loading(tx: CatalogTransaction, ids: Collection[str]) -> list[str]:
    """Return the staged files that a copy job is loading, or one of an unknown state may be loading."""
    copied, job = tx.t.copied_files, tx.t.copy_jobs
    is_own_job = and_(job.c.id == copied.c.job_id, job.c.instance == copied.c.instance)
    is_loading = [tx.in_instance(copied.c.file, ids), job.c.state != CopyState.FINISHED, job.c.internal]
    return tx.ids(select(copied.c.file).join(job, is_own_job).where(*is_loading))


def in_dropped_stage(tx: CatalogTransaction, records: Table, ids: Collection[str]) -> set[str]:
    """Return the files, or jobs, whose stage was dropped: they are deleted with it, unless it is undropped."""
    stage = tx.t.stages
    is_own = and_(stage.c.id == records.c.stage_id, stage.c.instance == records.c.instance)
    is_dropped = [tx.in_instance(records.c.id, ids), stage.c.dropped, tx.has_mark(tx.db.t.mark, "stage", stage.c.id)]
    return set(tx.ids(select(records.c.id).join(stage, is_own).where(*is_dropped)))


def expansion(rows: Sequence[Any]) -> Expansion:
    """Return the files of rows as ``files`` returns them; a hold on one of them, or on its stage, applies."""
    places = []
    try:
        for vault, of_vault in groupby(sorted(rows, key=lambda row: (row.vault, row.id)), lambda row: row.vault):
            keys = tuple(staged_key(row.stage_id, row.id) for row in of_vault)
            places.append(Place(vault=vault, keys=keys))
    except BadInput as e:
        return Expansion(problem=(Reason.UNEXPANDED, str(e)))
    above = {ref for row in rows for ref in (Ref("stage_file", row.id), Ref("stage", row.stage_id))}
    return Expansion(places=tuple(places), above=tuple(sorted(above)))
