"""An older attempt that resumes after a take-over removes no record of the owner."""

import threading

from sexton.kernel import crash_points
from sexton.marks.lease import LeaseLost
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from tests.integration.owners.catalog.shop import FAR_MS, GRACE, RETAINED, Shop
from tests.support.eventually import PATIENCE_SECONDS


def test_records_stay_for_the_second_pass_of_the_newer_attempt(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    opened = shop.rounds.open("shop", "r1", None, shop.policy)
    common = {"round": opened.round, "lease": opened.lease, "upload_grace_seconds": GRACE}
    shop.recycler.adopt(AdoptOrder(cutoffs=opened.cutoffs, **common), 1, lambda: None)
    order = RangeOrder(number=0, kind="tablet", cutoff=FAR_MS, limit=1_000, **common)
    stopped, resumed = threading.Event(), threading.Event()
    errors: list[LeaseLost] = []

    def first_attempt() -> None:
        try:
            shop.recycler.recycle(order, 1, lambda: None)
        except LeaseLost as e:
            errors.append(e)

    def stop_at_log(point: str) -> None:
        if point == "audit.written" and threading.current_thread() is first:
            stopped.set()
            assert resumed.wait(PATIENCE_SECONDS)

    first = threading.Thread(target=first_attempt)
    with crash_points.installed(stop_at_log):
        first.start()
        assert stopped.wait(PATIENCE_SECONDS)
        shop.recycler.recycle(order, 2, lambda: None)
        before = shop.number(shop.t.tablets), shop.number(shop.t.rowsets)
        resumed.set()
        first.join()

    assert shop.row("tablet", tablet).first_pass_at is not None
    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == before
    assert len(errors) == 1
