"""What a tablet or rowset belongs to by the catalog's records, whatever is marked: a hold on it keeps them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from sexton.marks.model import Ref
from sexton.owners.catalog.parents import PARENTS
from sexton.owners.catalog.scope import CatalogTransaction

ROWSETS = ("compacted", "dropped", "prepared")


def above(s: CatalogTransaction, kind: str, ids: Sequence[str]) -> Mapping[str, tuple[Ref, ...]]:
    """Return tablet, index, partition and table of each of these rowsets or tablets, as far as they have records."""
    tablet, rowset, of = s.t.tablets, s.t.rowsets, {i: i for i in ids}
    if kind in ROWSETS:
        of = {
            r.id: r.tablet_id
            for r in s.c.execute(select(rowset.c.id, rowset.c.tablet_id).where(s.mine(rowset.c.id, ids)))
        }
    elif kind != "tablet":
        return {}
    names = [tablet.c[f"{parent}_id"] for parent in PARENTS]
    wanted = select(tablet.c.id, *names).where(s.mine(tablet.c.id, set(of.values())))
    known = {row[0]: tuple(Ref(k, i) for k, i in zip(PARENTS, row[1:], strict=True)) for row in s.c.execute(wanted)}
    found: dict[str, tuple[Ref, ...]] = defaultdict(tuple)
    for id_, its in of.items():
        found[id_] = (Ref("tablet", its), *known.get(its, ()))
    return found
