"""An undrop succeeds although rounds deleted garbage below the object, or crashed at it, before."""

import pytest

from sexton.kernel.crash_points import installed
from sexton.operators.holds.model import Hold
from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.support.crashes import Crash, crash_at


def hold(shop: Shop, kind: str, id_: str) -> int:
    placed, _ = shop.holds.place(
        Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="look first"), 7 * 86_400
    )
    return placed.id


@pytest.mark.slow
def test_compactions_deleted_before_the_drop_block_no_undrop(shop: Shop) -> None:
    tablets = shop.table()
    shop.compacted(tablets[0], [shop.loaded(tablets)[0] for _ in range(2)])
    shop.later(2_000)
    shop.round()
    live = shop.objects()
    shop.catalog.drop_partition("t-p")
    hold(shop, "partition", "t-p")
    shop.later(RETAINED)
    shop.round()

    shop.catalog.undrop_partition("t-p")

    assert shop.count("mark_history", kind="compacted") == 2
    assert shop.objects() == live
    assert shop.count("mark", kind="tablet") == 0


@pytest.mark.slow
def test_a_partition_deleted_before_the_drop_blocks_no_undrop(shop: Shop) -> None:
    shop.loaded(shop.table())
    shop.catalog.drop_partition("t-p")
    shop.later(RETAINED)
    shop.round()
    shop.second_pass()
    shop.round()
    assert shop.count("mark_history", kind="partition") == 1
    shop.catalog.drop_table("t")

    shop.catalog.undrop_table("t")

    assert shop.count("mark", kind="table") == 0


def test_a_precommitted_load_commits_after_a_crash_at_the_fence(shop: Shop) -> None:
    txn, _ = shop.written(shop.table())
    shop.change(shop.t.txns, txn, timeout_at=shop.now() + 864_000_000)
    shop.catalog.precommit(txn)
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    with installed(crash_at("owner.fenced")), pytest.raises(Crash):
        shop.round()
    shop.catalog.undrop_table("t")
    shop.later(120)
    shop.round()

    shop.catalog.commit(txn)

    assert shop.count("mark", kind="prepared") == 0
