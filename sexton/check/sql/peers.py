"""Compare the memory of a peer (a front end) with the records, in both directions.

The comparison goes by ranges of ids: a peer with many ids sends them in order, range by range, and each range is
compared completely.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Select, Text, and_, exists, func, select

from sexton.check.model import PeerComparison
from sexton.database.engine import Database
from sexton.database.ranges import within
from sexton.database.rows import as_rows
from sexton.kernel.errors import BadInput
from sexton.operators.registry.store import Instance
from sexton.owners.catalog import parents
from sexton.owners.catalog.model import RowsetState
from sexton.owners.catalog.scope import CatalogTransaction
from sexton.owners.sql import live_view
from sexton.owners.sql.live_sessions import reading_at

NAMED_IDS = 100
"""Ids that are named of each kind of difference; the others are only counted."""


def compare(db: Database, instance: Instance, kind: str, ids: Sequence[str], after: str, until: str) -> PeerComparison:
    """Return the ids in a range that only the peer has, and those that only the records have.

    Args:
        db: the database.
        instance: the instance.
        kind: kind of the records.
        ids: the peer's ids in the range.
        after: the range begins above this id; empty: unbounded.
        until: the range ends with this id; empty: unbounded.

    Raises:
        BadInput: an id lies outside of the range, or the owner has no records of this kind.
    """
    if outside := [peer_id for peer_id in ids if peer_id <= after or (until and peer_id > until)]:
        raise BadInput(f"{outside[0]!r} is not beyond {after!r} and up to {until!r}")
    with _reading(db, instance) as c:
        records = _records(db, c, instance, kind, after, until).subquery("records")
        peer_ids = as_rows(db, ({"id": peer_id} for peer_id in set(ids)), id=Text())
        only_peer = select(peer_ids.c.id).where(~exists().where(records.c.id == peer_ids.c.id))
        only_records = select(records.c.id).where(~exists().where(peer_ids.c.id == records.c.id))
        unknown, unknown_ids = _count_and_first_ids(c, only_peer)
        missing, missing_ids = _count_and_first_ids(c, only_records)
    return PeerComparison(kind=kind, unknown=unknown, unknown_ids=unknown_ids, missing=missing, missing_ids=missing_ids)


@contextmanager
def _reading(db: Database, instance: Instance) -> Iterator[Connection]:
    """Open a transaction of one snapshot, with the login that reads the instance's records: it needs no other rows."""
    with db.snapshot() if instance.owner == "catalog" else reading_at(db, instance.id, "") as c:
        yield c


def _count_and_first_ids(c: Connection, ids: Select[Any]) -> tuple[int, tuple[str, ...]]:
    distinct = ids.distinct().subquery()
    count = int(c.execute(select(func.count()).select_from(distinct)).scalar_one())
    if not count:
        return 0, ()
    first_ids = select(live_view.beginning(distinct.c.id)).order_by(distinct.c.id).limit(NAMED_IDS)
    return count, tuple(c.execute(first_ids).scalars())


def _records(db: Database, c: Connection, instance: Instance, kind: str, after: str, until: str) -> Select[Any]:
    """Select the ids of the records of a kind that a peer should know: it need not know what was dropped."""
    if instance.owner != "catalog":
        name = live_view.named(db, instance)
        if name is None:
            raise BadInput(
                f"{instance.id} does not show which objects are live; create a view and name it: "
                f"sexton instance live-view {instance.id} VIEW"
            )
        view = live_view.load(db, c, name)
        is_of_kind = and_(live_view.is_about(view, instance.id), view.c.kind == kind)
        return select(view.c.id.label("id")).where(is_of_kind, within(view.c.id, after, until)).distinct()
    tx = CatalogTransaction(db, c, instance.id)
    t = tx.t
    ids_and_conditions = {
        "table": (t.tables.c.id, ~t.tables.c.dropped),
        "index": (t.indexes.c.id, ~t.indexes.c.dropped),
        "partition": (t.partitions.c.id, ~t.partitions.c.dropped),
        "tablet": (t.tablets.c.id, parents.standing(tx)),
        "rowset": (t.rowsets.c.id, t.rowsets.c.state == RowsetState.VISIBLE),
    }
    if kind not in ids_and_conditions:
        raise BadInput(f"the catalog has no records of kind {kind!r}; use one of: {', '.join(ids_and_conditions)}")
    id_column, is_live = ids_and_conditions[kind]
    return select(id_column.label("id")).where(tx.in_instance(id_column), is_live, within(id_column, after, until))
