"""A key below the prefix of a mark in its second pass is refused, also where the mark names no vault (a tablet's)."""

import pytest

from sexton.protection.errors import Invalid
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.rounds.ledger import Ledger
from tests.integration.owners.catalog.shop import GRACE, RETAINED, Shop
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import replaced_worker


def test_a_key_below_a_tablet_in_second_pass_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    [key] = shop.objects()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    opened = shop.rounds.open("shop", "r", None, shop.policy)
    adopt = AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE, cutoffs=opened.cutoffs)
    shop.recycler.adopt(adopt, 1, lambda: None)
    plan, ledger = shop.plan(), Ledger()
    ledger.begin(plan)
    [kind] = [k for k in plan.kinds if k.kind == "tablet"]
    with replaced_worker(shop, ledger.next_range(opened, plan, kind, 0), monkeypatch):
        assert shop.row("tablet", tablet).first_pass_at is not None
        shop.put("disk", key)  # an upload that began before the claim ends late: hence the second pass
        with pytest.raises(Invalid, match="being deleted"):
            protect(shop, "job", key)
