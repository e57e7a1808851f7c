"""Second passes over files that only the catalog's records name: they stay as long as the mark may be kept."""

import threading
from collections.abc import Sequence

import pytest
from sqlalchemy import delete, insert

from sexton.kernel.errors import BadInput
from sexton.marks.lease import LeaseLost
from sexton.marks.model import Ref, WriteToken
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete_check import UndeleteUnsafe, ensure_undelete_is_safe
from sexton.owners.catalog.layout import IndexFormat
from sexton.owners.catalog.model import Schema
from sexton.owners.port import OwnerSilent
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.pipeline.sql import quarantine
from tests.integration.owners.catalog.shop import GRACE, RETAINED, Shop
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.kept import kept_texts

DAY = 86_400


def test_files_of_a_rowset_without_schema_are_not_safe(shop: Shop) -> None:
    [tablet] = shop.table(i=Schema(format=IndexFormat.V1, inverted=("7", "8")))
    [rowset] = shop.loaded([tablet], bitmap=True)
    before = shop.objects()
    with shop.db.read() as c:
        schema = c.execute(shop.t.schemas.select()).one()._asdict()
    shop.catalog.drop_rowset(rowset)
    with shop.db.write() as c:
        c.execute(delete(shop.t.schemas))
    shop.later(RETAINED)
    shop.round()
    gone = before - shop.objects()
    assert shop.row("dropped", rowset).quarantined_reason == "SCHEMA_MISSING"
    assert gone

    with pytest.raises(UndeleteUnsafe, match="its second pass would delete the objects again"):
        ensure_undelete_is_safe(shop.db, "shop", "disk", prefix=f"data/{tablet}/")
    with pytest.raises(UndeleteUnsafe, match=f"sexton quarantine discard shop dropped/{rowset}"):
        ensure_undelete_is_safe(shop.db, "shop", "disk", keys=sorted(gone))
    with shop.db.write() as c:  # the owner finds its schema again
        c.execute(insert(shop.t.schemas).values(**schema))
    shop.round()
    shop.second_pass()
    assert shop.row("dropped", rowset) is None


@pytest.mark.parametrize("paused_before", ["record_finished", "forget"])
def test_an_older_attempt_removes_no_record_of_a_kept_mark(shop: Shop, paused_before: str) -> None:
    tablet, order = tablet_in_second_pass(shop)
    stopped, resumed, errors = threading.Event(), threading.Event(), list[LeaseLost]()
    target = shop.stores.settlements if paused_before == "record_finished" else shop.owner
    real = getattr(target, paused_before)

    def pause(*arguments: object) -> object:
        if threading.current_thread() is older:
            stopped.set()
            assert resumed.wait(PATIENCE_SECONDS)
        return real(*arguments)

    def older_attempt() -> None:
        try:
            shop.recycler.adopt(order, 1, lambda: None)
        except LeaseLost as e:
            errors.append(e)

    setattr(target, paused_before, pause)
    older = threading.Thread(target=older_attempt)
    older.start()
    assert stopped.wait(PATIENCE_SECONDS)
    shop.holds.place(Hold(instance="shop", scope="instance", reason="undelete"), DAY)
    shop.recycler.adopt(order, 2, lambda: None)
    records = shop.number(shop.t.rowsets), shop.number(shop.t.tablets)
    resumed.set()
    older.join(PATIENCE_SECONDS)

    assert len(errors) == 1
    assert (shop.number(shop.t.rowsets), shop.number(shop.t.tablets)) == records
    # Kept with its records, or gone with them: never the one without the other.
    is_kept = paused_before == "record_finished"
    assert (shop.row("tablet", tablet) is not None, records[1]) == (is_kept, int(is_kept))


def test_an_empty_tablet_leaves_no_record(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    shop.second_pass()

    assert (shop.row("tablet", tablet), shop.number(shop.t.tablets)) == (None, 0)


def test_a_mark_discarded_before_its_end_keeps_its_records(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    tablet, order = tablet_in_second_pass(shop)
    records = shop.number(shop.t.rowsets), shop.number(shop.t.tablets)
    real = shop.stores.settlements.record_finished

    def discard_first(token: WriteToken, refs: Sequence[Ref]) -> frozenset[Ref]:
        with monkeypatch.context() as patch:
            patch.setattr(quarantine, "may_be_deleting", lambda *_: False)
            shop.stores.quarantine.discard("shop", Ref("tablet", tablet), "undelete")
        return real(token, refs)

    monkeypatch.setattr(shop.stores.settlements, "record_finished", discard_first)
    shop.recycler.adopt(order, 1, lambda: None)

    assert shop.row("tablet", tablet) is None
    assert (shop.number(shop.t.rowsets), shop.number(shop.t.tablets)) == records


def test_a_mark_whose_owner_fails_can_be_discarded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    tablet, order = tablet_in_second_pass(shop)

    def fail(*_: object) -> None:
        raise OwnerSilent("the catalog does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(shop.owner, "forget", fail)
        silent = shop.recycler.adopt(order, 1, lambda: None)
    assert set(kept_texts(silent)) == {"owner: the catalog does not answer"}
    assert shop.row("tablet", tablet).finished
    with pytest.raises(BadInput, match="are being deleted now"):
        shop.stores.quarantine.discard("shop", Ref("tablet", tablet), "undelete")
    shop.leases.free(order.lease)
    with pytest.raises(UndeleteUnsafe, match=f"sexton quarantine discard shop tablet/{tablet}"):
        ensure_undelete_is_safe(shop.db, "shop", "disk", prefix=f"data/{tablet}/")

    shop.stores.quarantine.discard("shop", Ref("tablet", tablet), "undelete")
    ensure_undelete_is_safe(shop.db, "shop", "disk", prefix=f"data/{tablet}/")


def tablet_in_second_pass(shop: Shop) -> tuple[str, AdoptOrder]:
    """Drop a table and let the second pass of its tablet be due; return the tablet and the order of its pass."""
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    assert shop.row("tablet", tablet).first_pass_at is not None
    shop.later(GRACE + 1)
    opened = shop.rounds.open("shop", "second round", None, shop.policy)
    order = AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE, cutoffs=opened.cutoffs)
    return tablet, order
