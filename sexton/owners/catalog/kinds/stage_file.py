"""Marks of staged files that no copy job has loaded: they are deleted by exact name when they expire."""

from collections.abc import Mapping, Sequence

from sexton.marks.model import DueMark, Expansion, Reason, Ref
from sexton.owners.catalog import staged
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.scope import CatalogTransaction

NO_RECORD = Expansion(problem=(Reason.UNEXPANDED, "the catalog has no record of this staged file"))


def _expand(tx: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    ids = [mark.id for mark in marks]
    files, waiting = {row.id: row for row in staged.files(tx, ids)}, staged.in_dropped_stage(tx, tx.t.staged_files, ids)
    expansions = {m.ref: staged.expansion([files[m.id]]) if m.id in files else NO_RECORD for m in marks}
    return expansions | {m.ref: staged.WAITS for m in marks if m.id in waiting}


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    tx.remove(tx.t.staged_files.c.id, ids)


KIND = CatalogKind(name="stage_file", expand=_expand, forget=_forget, live=staged.loading)
