"""A rowset whose load or compaction never ended: all under its prefix, once its owner is aborted (the barrier)."""

from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import DueMark, Expansion, Fenced, Place, Reason, Ref
from sexton.owners.catalog import barrier, rowsets
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction


def _expand(_scope: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Take the mark at its word: it was written before the first file, when nobody knew how many there would be."""
    return {m.ref: _place(m) for m in marks}


def _place(mark: DueMark) -> Expansion:
    if mark.vault is None or mark.prefix is None:
        return Expansion(problem=(Reason.UNEXPANDED, "a prepared mark names a vault and a prefix"))
    return Expansion(places=(Place(vault=mark.vault, prefix=mark.prefix),), fence=not mark.swept)


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    rowsets.forget(s, ids, RowsetState.PREPARED, RowsetState.TMP)


def _mended(s: CatalogTransaction, ids: Sequence[str]) -> list[str]:
    mark = s.db.t.mark
    found = s.c.execute(select(mark.c.id, mark.c.owner_txn).where(s.mine(mark.c.id, ids), mark.c.kind == "prepared"))
    return [
        i
        for i, (answer, _) in barrier.judge(s, {r.id: r.owner_txn for r in found}).items()
        if answer is not Fenced.UNKNOWN
    ]


KIND = CatalogKind(
    name="prepared",
    retention="retention_seconds",
    expand=_expand,
    forget=_forget,
    live=rowsets.visible,
    mended=_mended,
)
