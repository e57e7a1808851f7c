"""A hold on a table or partition, or a longer retention, blocks deletion of everything below it."""

from config.settings import owner_policy
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.planning.policy import policy
from tests.integration.owners.catalog.shop import GRACE, OWN, RETAINED, RETENTION, Shop
from tests.support.kept import kept_texts


def hold(shop: Shop, kind: str, id_: str) -> int:
    placed, _ = shop.holds.place(
        Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="look first"), 7 * 86_400
    )
    return placed.id


def test_a_hold_on_a_live_table_blocks_its_dropped_rowset(shop: Shop) -> None:
    [row] = shop.loaded(shop.table())
    shop.catalog.drop_rowset(row)
    placed, before = hold(shop, "table", "t"), shop.objects()
    shop.later(RETAINED)

    report = shop.round()

    assert shop.objects() == before
    assert kept_texts(report) == {f"hold {placed}": 1}


def test_a_hold_blocks_a_partition_of_an_expanded_table(shop: Shop) -> None:
    shop.loaded(shop.table())
    shop.catalog.drop_table("t")
    shop.expand_all()
    hold(shop, "partition", "t-p")
    before = shop.objects()
    shop.later(RETAINED)

    shop.round()

    assert shop.objects() == before


def test_a_load_into_a_held_table_is_not_aborted(shop: Shop) -> None:
    tablets = shop.table()
    txn = shop.catalog.begin("long", 5 * 86_400)
    [output] = shop.catalog.prepare_rowsets(txn, tablets, "disk")
    shop.write(output)
    shop.catalog.drop_table("t")
    hold(shop, "table", "t")
    shop.later(RETAINED)
    shop.round()
    shop.catalog.undrop_table("t")

    shop.catalog.commit(txn)

    assert shop.count("mark", kind="prepared") == 0


def test_a_longer_retention_blocks_an_expanded_table(shop: Shop) -> None:
    shop.loaded(shop.table())
    before = shop.objects()
    shop.catalog.drop_table("t")
    placed = hold(shop, "table", "t")
    shop.later(RETAINED)
    shop.round()
    assert shop.count("mark", kind="tablet") == 1

    shop.policy = policy(RETENTION, GRACE, owners={"catalog": owner_policy(PLUGIN, OWN | {"table": 30 * 86_400})})
    shop.round()
    shop.holds.release(placed)
    shop.round()

    assert shop.objects() == before
    assert shop.count("mark", kind="tablet") == 0
