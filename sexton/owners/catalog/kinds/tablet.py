"""A tablet of something dropped: all it has in every vault, with the marks of its rowsets; then all its records."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.kernel.errors import BadInput
from sexton.marks.model import DueMark, Expansion, Place, Reason, Ref
from sexton.owners.catalog import parents
from sexton.owners.catalog.kind import CatalogKind
from sexton.owners.catalog.layout import tablet_prefix
from sexton.owners.catalog.scope import CatalogTransaction


def _expand(s: CatalogTransaction, marks: Sequence[DueMark]) -> Mapping[Ref, Expansion]:
    """Name the tablet's prefix in every vault that one of its rowsets names, in whatever state, or a mark of one."""
    rowset, mark, ids = s.t.rowsets, s.db.t.mark, [m.id for m in marks]
    recorded = select(rowset.c.tablet_id, rowset.c.vault).where(s.mine(rowset.c.tablet_id, ids))
    below = [s.mine(mark.c.parent_id, ids), mark.c.parent_kind == "tablet", mark.c.vault.is_not(None)]
    vaults: dict[str, list[str]] = defaultdict(list)
    for tablet, vault in s.c.execute(recorded.union(select(mark.c.parent_id, mark.c.vault).where(*below))):
        vaults[tablet].append(vault)
    return {m.ref: _places(m.id, sorted(vaults[m.id])) for m in marks}


def _places(tablet: str, vaults: Sequence[str]) -> Expansion:
    try:
        prefix = tablet_prefix(tablet)
    except BadInput as e:
        return Expansion(problem=(Reason.UNEXPANDED, str(e)))
    return Expansion(places=tuple(Place(vault=v, prefix=prefix) for v in vaults), absorbs=True)


def _live(s: CatalogTransaction, ids: Sequence[str]) -> Sequence[str]:
    tablet = s.t.tablets
    return s.ids(select(tablet.c.id).where(s.mine(tablet.c.id, ids), parents.standing(s)))


def _forget(s: CatalogTransaction, ids: Sequence[str]) -> None:
    tablet = s.t.tablets
    kept = set(_live(s, ids))
    gone = [i for i in ids if i not in kept]
    for column in (s.t.rowsets.c.tablet_id, s.t.jobs.c.tablet_id, s.t.stats.c.tablet_id, tablet.c.id):
        s.remove(column, gone)


KIND = CatalogKind(name="tablet", retention="", expand=_expand, forget=_forget, live=_live)
