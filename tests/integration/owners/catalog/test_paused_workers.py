"""A worker that pauses between its check and its write changes nothing that was decided meanwhile."""

import threading
from collections.abc import Mapping
from contextlib import suppress

import pytest

from config.settings import owner_policy
from sexton.kernel.errors import SextonError
from sexton.marks.model import Ref
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.owners.catalog.plugin import PLUGIN
from sexton.owners.port import FindRefs, Heartbeat, Verify
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.planning.policy import policy
from sexton.recycle.rounds.ledger import Ledger
from tests.integration.owners.catalog.shop import GRACE, OWN, RETAINED, Shop
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.rig import RETENTION

WEEK = 7 * 86_400


def test_an_older_round_marks_nothing_that_a_newer_one_keeps(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    objects = shop.objects()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    older = shop.rounds.open("shop", "r1", None, shop.policy)
    mark_due, paused, resumed = shop.catalog_owner.mark_due, threading.Event(), threading.Event()

    def work() -> None:
        order = AdoptOrder(round=older.round, lease=older.lease, upload_grace_seconds=GRACE, cutoffs=older.cutoffs)
        with suppress(SextonError):
            shop.recycler.adopt(order, 1, lambda: None)

    def paused_after_heartbeat(instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat, verify: Verify) -> None:
        def beat() -> None:
            heartbeat()  # the lease is valid
            if threading.current_thread() is thread and not paused.is_set():
                paused.set()
                assert resumed.wait(PATIENCE_SECONDS)

        mark_due(instance, {"table": cutoffs["table"]}, beat, verify)

    monkeypatch.setattr(shop.catalog_owner, "mark_due", paused_after_heartbeat)
    thread = threading.Thread(target=work)
    thread.start()
    assert paused.wait(PATIENCE_SECONDS)
    shop.later(61)  # the lease expired
    longer = OWN | dict.fromkeys(("table", "index", "partition"), WEEK)
    raised = policy(RETENTION, GRACE, owners={"catalog": owner_policy(PLUGIN, longer)})
    shop.policy = raised
    newer = shop.rounds.open("shop", "r2", None, raised)
    order = AdoptOrder(round=newer.round, lease=newer.lease, upload_grace_seconds=GRACE, cutoffs=newer.cutoffs)
    shop.recycler.adopt(order, 1, lambda: None)
    resumed.set()
    thread.join(PATIENCE_SECONDS)
    plan, ledger = shop.plan(), Ledger()
    for kind in plan.kinds:
        shop.recycle(newer, plan, kind, ledger)

    assert shop.objects() == objects
    shop.catalog.undrop_table("t")


def test_a_held_tablet_with_an_absorbed_load_can_be_undeleted(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.written([tablet])  # a load that is not committed: its mark is a child of the tablet
    prefix = f"data/{tablet}/"
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    assert shop.objects() == set()
    assert shop.row("tablet", tablet).first_pass_at is not None  # waits for its second pass
    assert shop.count("mark", kind="prepared", state="CLAIMED", absorbed=True) == 1
    shop.holds.place(Hold(instance="shop", scope="instance", reason="undelete"), WEEK)
    shop.later(3 * GRACE)
    shop.round()  # "let the round finish"

    ensure_undelete_is_safe(shop.db, "shop", "disk", prefix=prefix)


def test_an_older_attempt_removes_no_records_of_a_discarded_mark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    shop.later(GRACE + 1)
    opened = shop.rounds.open("shop", "r2", None, shop.policy)
    order = AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE, cutoffs=opened.cutoffs)
    forget, paused, resumed = shop.catalog_owner.forget, threading.Event(), threading.Event()

    def paused_before(instance: str, find_refs: FindRefs) -> None:
        paused.set()
        assert resumed.wait(PATIENCE_SECONDS)
        forget(instance, find_refs)

    def work() -> None:
        with suppress(SextonError):
            shop.recycler.adopt(order, 1, lambda: None)

    monkeypatch.setattr(shop.catalog_owner, "forget", paused_before)
    thread = threading.Thread(target=work)
    thread.start()
    assert paused.wait(PATIENCE_SECONDS)
    shop.later(100)  # the lease expired, and 37 s have passed
    with pytest.raises(UndeleteUnsafe, match="first give the mark up permanently: sexton quarantine discard"):
        ensure_undelete_is_safe(shop.db, "shop", "disk", prefix=f"data/{tablet}/")
    QuarantineStore(shop.db).discard("shop", Ref("tablet", tablet), "undelete")
    ensure_undelete_is_safe(shop.db, "shop", "disk", prefix=f"data/{tablet}/")
    resumed.set()
    thread.join(PATIENCE_SECONDS)

    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == (1, 1)
