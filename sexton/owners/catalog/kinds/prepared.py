"""Marks of rowsets whose load or compaction never ended: everything under their prefix, once the writer is aborted."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import DueMark, Expansion, Fenced, Place, Reason, Ref
from sexton.owners.catalog import barrier, rowsets
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def _expand(_scope: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Return the prefix in the mark: the mark was written before the first file, so it cannot name the files."""
    return {mark.ref: _expansion(mark) for mark in marks}


def _expansion(mark: DueMark) -> Expansion:
    if mark.vault is None or mark.prefix is None:
        return Expansion(problem=(Reason.UNEXPANDED, "a prepared mark must name a vault and a prefix"))
    return Expansion(places=(Place(vault=mark.vault, prefix=mark.prefix),), fence=not mark.in_second_pass)


def _forget(tx: CatalogTransaction, ids: Sequence[str]) -> None:
    rowsets.forget(tx, ids, RowsetState.PREPARED, RowsetState.TMP)


def _resolvable(tx: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    mark = tx.db.t.mark
    rows = tx.c.execute(
        select(mark.c.id, mark.c.owner_txn).where(tx.in_instance(mark.c.id, ids), mark.c.kind == "prepared")
    )
    answers = barrier.judge(tx, {row.id: row.owner_txn for row in rows})
    return [rowset_id for rowset_id, (answer, _) in answers.items() if answer is not Fenced.UNKNOWN]


KIND = CatalogKind(
    name="prepared",
    expand=_expand,
    forget=_forget,
    live=rowsets.visible,
    resolvable=_resolvable,
)
