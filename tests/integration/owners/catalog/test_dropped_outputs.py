"""A dropped output of a compaction is deleted only after its inputs, which would seem live without it."""

from config.settings import owner_policy
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.plugin import PLUGIN
from sexton.recycle.planning.policy import policy
from tests.integration.owners.catalog.shop import OWN, RETAINED, Shop
from tests.support.kept import kept_texts
from tests.support.rig import GRACE, RETENTION


def rowset_marks(shop: Shop) -> int:
    return shop.count("mark", kind="compacted") + shop.count("mark", kind="dropped")


def test_a_dropped_output_waits_for_its_held_inputs(shop: Shop) -> None:
    [tablet] = shop.table()
    kept, other = shop.loaded([tablet]) + shop.loaded([tablet])
    output, beside = shop.compacted(tablet, [kept, other]), shop.loaded([tablet])
    live, both = set(shop.keys(*beside)), set(shop.keys(kept, output))
    shop.catalog.drop_rowset(output)
    hold = Hold(instance="shop", scope="mark", mark_kind="compacted", mark_id=kept, reason="look first")
    placed, _ = shop.holds.place(hold, 7 * 86_400)
    shop.later(RETAINED)

    reports = [shop.round(), shop.round()]

    assert [kept_texts(r) for r in reports] == [{f"hold {placed.id}": 1, "waits for its compaction inputs": 1}] * 2
    assert [r.removed for r in reports] == [1, 0]
    assert shop.objects() == live | both
    shop.holds.release(placed.id)
    report = shop.round()
    assert (report.removed, kept_texts(report)) == (2, {})
    assert shop.objects() == live
    assert (rowset_marks(shop), shop.number(shop.t.rowsets)) == (0, 1)


def test_an_output_waits_for_its_inputs_to_be_due(shop: Shop) -> None:
    [tablet] = shop.table()
    output = shop.compacted(tablet, shop.loaded([tablet]) + shop.loaded([tablet]))
    shop.catalog.drop_rowset(output)
    before = shop.objects()
    shop.policy = policy(
        {**RETENTION, "dropped": 0, "compacted": RETAINED}, GRACE, owners={"catalog": owner_policy(PLUGIN, OWN)}
    )
    shop.later(1)

    early = shop.round()
    kept = shop.objects()
    shop.later(RETAINED)
    shop.round()

    assert (early.removed, kept_texts(early)) == (0, {"waits for its compaction inputs": 1})
    assert kept == before
    assert shop.objects() == set()
    assert (rowset_marks(shop), shop.number(shop.t.rowsets)) == (0, 0)
