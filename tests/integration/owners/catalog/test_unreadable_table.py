"""A table of the owner that cannot be read keeps the marks that need it, and no others."""

from sqlalchemy import text

from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.support.kept import kept_texts


def test_an_unreadable_table_keeps_only_its_own_marks(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    with shop.db.write() as c:
        c.execute(text(f"ALTER TABLE {shop.t.txns.fullname} RENAME TO away"))

    report = shop.round()

    assert shop.objects() == set()
    assert any(why.startswith("owner: the catalog's tables cannot be read") for why in kept_texts(report))
    with shop.db.write() as c:
        c.execute(text(f"ALTER TABLE sexton_catalog.away RENAME TO {shop.t.txns.name}"))


def test_an_observed_instance_shows_what_its_owner_would_mark(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.registry.observe("shop")
    opened = shop.rounds.open("shop", "observes", None, shop.policy)

    shop.recycler.mark_due(opened, lambda: None)

    assert {(k.kind, k.marks) for k in shop.plan().kinds} >= {("table", 1), ("tablet", 1)}
    assert shop.row("tablet", tablet).state == "MARKED"
