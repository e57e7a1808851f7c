"""Two shards of prepared rowsets abort the same loads at the same time."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from sexton.marks.model import Ref
from sexton.owners.catalog.model import TxnStatus
from tests.integration.owners.catalog.shop import Shop, no_heartbeat


@pytest.mark.slow
def test_shards_abort_the_same_loads_without_a_deadlock(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    for n in range(120):
        shop.prepared(tablets, label=f"l{n}")
    mark = shop.db.t.mark
    with shop.db.read() as c:
        rows = c.execute(select(mark.c.id, mark.c.owner_txn, mark.c.parent_id).where(mark.c.kind == "prepared")).all()
    of = [[Ref("prepared", r.id) for r in rows if r.parent_id == t] for t in tablets]
    of[1].reverse()
    with shop.db.write() as c:
        c.execute(update(mark).values(state="FENCED"))
    for _ in range(15):
        with shop.db.write() as c:
            c.execute(update(shop.t.txns).values(status=TxnStatus.PREPARED))
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(shop.catalog_owner.fence, "shop", n, of[n], no_heartbeat) for n in (0, 1)]
            for call in calls:
                assert {answer for answer, _ in call.result().values()} == {"fenced"}
