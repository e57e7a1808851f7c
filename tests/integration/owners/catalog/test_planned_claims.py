"""A plan says how many claimed marks a round would finish first."""

from tests.integration.owners.catalog.shop import RETAINED, Shop


def test_a_plan_does_not_count_children_of_marks_that_wait(shop: Shop) -> None:
    [tablet] = shop.table()
    rowsets = [shop.loaded([tablet])[0] for _ in range(3)]
    shop.compacted(tablet, rowsets)
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()  # claims the tablet with three compacted rowsets; its second pass is due in an hour
    shop.round()
    assert shop.count("mark", state="CLAIMED", first_pass_at=None, absorbed=True) == 3

    assert shop.plan().claimed == 0
