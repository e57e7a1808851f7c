"""How rowsets come to be: announced before their first file, shown under the next versions of their partitions."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import bindparam, func, select, update

from sexton import contract
from sexton.owners.catalog.layout import rowset_prefix
from sexton.owners.catalog.model import Output, RowsetState
from sexton.owners.catalog.records import add, count, found, mint, stand_tablets
from sexton.owners.catalog.scope import CatalogTransaction


def prepare(s: CatalogTransaction, owner: str, tablets: Sequence[str], vault: str, seconds: int) -> list[Output]:
    """Record rowsets about to be written and mark them prepared; ``seconds`` is how long their owner has."""
    rows = stand_tablets(s, tablets)
    schema = s.t.schemas
    indexes = {r.index_id for r in rows.values()}
    newest = select(schema.c.index_id, func.max(schema.c.version)).where(s.mine(schema.c.index_id, indexes))
    versions = {row[0]: row[1] for row in s.c.execute(newest.group_by(schema.c.index_id))}
    found(schema, indexes, versions)
    new = []
    for tablet in tablets:
        rowset = mint()
        new.append(Output(rowset=rowset, tablet=tablet, vault=vault, prefix=rowset_prefix(tablet, rowset)))
    known = {"state": RowsetState.PREPARED, "vault": vault, "owner_txn": owner, "segments": 0, "bytes": 0}
    add(
        s,
        s.t.rowsets,
        [
            {**known, "id": o.rowset, "tablet_id": o.tablet, "index_id": index, "schema_version": versions[index]}
            for o in new
            for index in (rows[o.tablet].index_id,)
        ],
    )
    ids, prefixes = [o.rowset for o in new], [o.prefix for o in new]
    contract.prepare(s.c, s.instance, owner, ids, vault, prefixes, seconds, parents=("tablet", list(tablets)))
    return new


def publish(s: CatalogTransaction, new: Sequence[Any]) -> None:
    """Give rowsets versions and show them. A partition moves on by as many versions as a tablet in it got rowsets."""
    if not new:
        return
    tablets = stand_tablets(s, {r.tablet_id for r in new})
    version, rowset = s.t.versions, s.t.rowsets
    partitions = {t.partition_id for t in tablets.values()}
    held = select(version.c.partition_id, version.c.value).where(s.mine(version.c.partition_id, partitions))
    last = {row.partition_id: row.value for row in s.c.execute(held.order_by(version.c.partition_id).with_for_update())}
    found(version, partitions, last)
    nth: Counter[str] = Counter()
    moved: dict[str, int] = defaultdict(int)
    shown = []
    for r in new:
        nth[r.tablet_id] += 1
        partition = tablets[r.tablet_id].partition_id
        moved[partition] = max(moved[partition], nth[r.tablet_id])
        shown.append({"this": r.id, "at": last[partition] + nth[r.tablet_id]})
    one = update(rowset).where(rowset.c.instance == s.instance, rowset.c.id == bindparam("this"))
    at = bindparam("at", type_=rowset.c.first_version.type)
    s.c.execute(one.values(state=RowsetState.VISIBLE, first_version=at, last_version=at), shown)
    this = update(version).where(version.c.instance == s.instance, version.c.partition_id == bindparam("this"))
    more = version.c.value + bindparam("more", type_=version.c.value.type)
    s.c.execute(this.values(value=more), [{"this": p, "more": n} for p, n in moved.items()])
    count(s, tablets)
