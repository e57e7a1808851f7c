"""Marks of dropped stages: everything under their prefix, with the marks of their files and copy jobs."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.kernel.errors import BadInput
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.owners.catalog.copies import forget_jobs
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.layout import stage_prefix
from sexton.owners.catalog.model import CopyState
from sexton.owners.catalog.scope import CatalogTransaction

WAITS = "its copy jobs"


def _expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the prefix of each internal stage, once no copy job reads from it. External stages have no files."""
    stage, job, ids = tx.t.stages, tx.t.copy_jobs, [mark.id for mark in marks]
    is_loading = [tx.in_instance(job.c.stage_id, ids), job.c.state != CopyState.FINISHED]
    loading_ids = set(tx.ids(select(job.c.stage_id).where(*is_loading)))
    rows = {row.id: row for row in tx.c.execute(select(stage).where(tx.in_instance(stage.c.id, ids)))}
    expansions = {}
    for mark in marks:
        row = rows.get(mark.id)
        if row is None:
            expansions[mark.ref] = Expansion(problem=(Reason.UNEXPANDED, "the catalog has no record of this stage"))
        elif mark.id in loading_ids:
            expansions[mark.ref] = Expansion(waits=WAITS)
        elif row.vault is None:
            expansions[mark.ref] = Expansion()
        else:
            expansions[mark.ref] = _expansion(mark, row.vault)
    return expansions


def _expansion(mark: DueMark, vault: str) -> Expansion:
    try:
        prefix = stage_prefix(mark.id)
    except BadInput as e:
        return Expansion(problem=(Reason.UNEXPANDED, str(e)))
    if mark.prefix != prefix:
        return Expansion(problem=(Reason.BAD_PREFIX, f"the prefix of this stage is {prefix}, not {mark.prefix!r}"))
    return Expansion(places=(Place(vault=vault, prefix=prefix),), absorbs=True)


def _live(tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    stage = tx.t.stages
    return tx.ids(select(stage.c.id).where(tx.in_instance(stage.c.id, ids), ~stage.c.dropped))


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    t = tx.t
    dropped_ids = tx.ids(select(t.stages.c.id).where(tx.in_instance(t.stages.c.id, ids), t.stages.c.dropped))
    forget_jobs(tx, tx.ids(select(t.copy_jobs.c.id).where(tx.in_instance(t.copy_jobs.c.stage_id, dropped_ids))))
    tx.remove(t.staged_files.c.stage_id, dropped_ids)
    tx.remove(t.stages.c.id, dropped_ids)


KIND = CatalogKind(name="stage", expand=_expand, forget=_forget, live=_live)
