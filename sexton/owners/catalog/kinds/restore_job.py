"""Marks of ended restore jobs: their records are removed once no rowset of theirs waits to be collected."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import DueMark, Expansion, Ref
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RESTORE
from sexton.owners.catalog.restores import ENDED, UNFINISHED
from sexton.owners.catalog.scope import CatalogTransaction

WAITS = "its rowsets"


def _expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    rowset, writers = tx.t.rowsets, [RESTORE + mark.id for mark in marks]
    # A rowset whose mark was discarded keeps its record and its files, but does not block its job.
    is_marked = tx.has_mark(tx.db.t.mark, "prepared", rowset.c.id)
    is_waiting = [tx.in_instance(rowset.c.owner_txn, writers), rowset.c.state.in_(UNFINISHED), is_marked]
    unfinished = select(rowset.c.owner_txn).where(*is_waiting)
    waiting = set(tx.ids(unfinished.distinct()))
    return {mark.ref: Expansion(waits=WAITS if RESTORE + mark.id in waiting else "") for mark in marks}


def _live(tx: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    job = tx.t.restore_jobs
    return tx.ids(select(job.c.id).where(tx.in_instance(job.c.id, ids), job.c.state.not_in(ENDED)))


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    tx.remove(tx.t.restore_jobs.c.id, ids, tx.t.restore_jobs.c.state.in_(ENDED))


KIND = CatalogKind(name="restore_job", expand=_expand, forget=_forget, live=_live)
