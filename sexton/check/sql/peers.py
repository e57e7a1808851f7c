"""Compare the memory of a peer (a front end) with the records, in both directions.

The comparison goes by ranges of ids: a peer with many ids sends them in order, range by range, and each range is
compared completely.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, Text, exists, func, select

from sexton.check.model import PeerComparison
from sexton.database.rows import as_rows
from sexton.kernel.errors import BadInput
from sexton.owners.port import Owner
from sexton.owners.sql import live_view

NAMED_IDS = 100
"""Ids that are named of each kind of difference; the others are only counted."""


def compare(owner: Owner, instance: str, kind: str, ids: Sequence[str], bounds: tuple[str, str]) -> PeerComparison:
    """Return the ids in a range that only the peer has, and those that only the records have.

    Args:
        owner: shows the ids of the records.
        instance: the instance.
        kind: kind of the records.
        ids: the peer's ids in the range.
        bounds: the range begins above the first id, and ends with the second one; empty: unbounded.

    Raises:
        BadInput: an id lies outside of the range, or the owner has no records of this kind.
    """
    after, until = bounds
    if outside := [peer_id for peer_id in ids if peer_id <= after or (until and peer_id > until)]:
        raise BadInput(f"{outside[0]!r} is not beyond {after!r} and up to {until!r}")
    with owner.record_ids(instance, kind, after, until) as (c, query):
        records = query.subquery("records")
        peer_ids = as_rows(({"id": peer_id} for peer_id in set(ids)), id=Text())
        only_peer = select(peer_ids.c.id).where(~exists().where(records.c.id == peer_ids.c.id))
        only_records = select(records.c.id).where(~exists().where(peer_ids.c.id == records.c.id))
        unknown, unknown_ids = _count_and_first_ids(c, only_peer)
        missing, missing_ids = _count_and_first_ids(c, only_records)
    return PeerComparison(kind=kind, unknown=unknown, unknown_ids=unknown_ids, missing=missing, missing_ids=missing_ids)


def _count_and_first_ids(c: Connection, ids: Select[Any]) -> tuple[int, tuple[str, ...]]:
    distinct = ids.distinct().subquery()
    count = int(c.execute(select(func.count()).select_from(distinct)).scalar_one())
    if not count:
        return 0, ()
    first_ids = select(live_view.beginning(distinct.c.id)).order_by(distinct.c.id).limit(NAMED_IDS)
    return count, tuple(c.execute(first_ids).scalars())
