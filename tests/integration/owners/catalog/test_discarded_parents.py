"""Discarded marks beside others: parents and children, compactions, and rounds at work."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.marks.model import ClaimRequest, Ref
from sexton.operators.holds.model import Hold
from sexton.owners.catalog.errors import AlreadyThere
from sexton.owners.catalog.model import Schema
from sexton.recycle.pipeline.sql.claim import ClaimStore
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.pipeline.sql.settlement import SettlementStore
from tests.integration.owners.catalog.shop import HOUR, RETAINED, Shop
from tests.integration.owners.catalog.test_discarded import discard, reported
from tests.support.crashes import Crash, crash_at
from tests.support.rig import DAY, GRACE

AN_HISTORY = 31 * DAY
"""After this long, history is trimmed."""


def give_up(shop: Shop, kind: str, id_: str) -> None:
    """Discard a mark that waits for its second pass."""
    QuarantineStore(shop.db).discard("shop", Ref(kind, id_), "anna")


def before_records_are_forgotten(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something once, after a second pass was counted and before the owner forgets its records."""
    record, done = SettlementStore.record_finished, []

    def act_and_record(*arguments: object) -> object:
        if not done:
            done.append(True)
            act()
        return record(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SettlementStore, "record_finished", act_and_record)


@pytest.mark.parametrize("kind", ["table", "index", "partition"])
def test_files_of_a_discarded_tablet_are_orphans(shop: Shop, kind: str) -> None:
    tablets = shop.table("t", 2)
    shop.loaded(tablets)
    id_ = {"table": "t", "index": "t-i", "partition": "t-p"}[kind]
    getattr(shop.catalog, f"drop_{kind}")(id_)
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", tablets[0])
    shop.round()
    shop.second_pass()
    shop.round()
    left = shop.objects()
    shop.later(3 * DAY)
    shop.check()

    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == (0, 0)
    assert [key.split("/")[1] for key in left] == [tablets[0]]
    assert [(f.type, f.key) for f in shop.runs.findings("shop", 0, 100)] == [("ORPHAN", key) for key in left]


def test_a_tablet_and_index_discarded_outlive_their_table(shop: Shop) -> None:
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [tablet] = shop.catalog.tablets(index="i2")
    files = {key for key in shop.objects() if tablet in key}
    shop.catalog.drop_index("i2")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", tablet)
    discard(shop, "index", "i2")
    shop.catalog.drop_table("t")
    for seconds in (RETAINED, DAY):
        shop.later(seconds)
        shop.round()
        shop.second_pass()

    assert shop.number(shop.t.tables) == 0
    assert shop.objects() == files != set()


def test_what_a_tablet_was_discarded_below_is_not_undropped(shop: Shop) -> None:
    tablets = shop.table("t", 2)
    shop.loaded(tablets)
    objects = shop.objects()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    shop.later(700)
    give_up(shop, "tablet", tablets[0])
    for key in objects:  # an operator has undeleted them
        shop.put("disk", key)

    with pytest.raises(contract.Refused, match=f"descendant tablet {tablets[0]} is gone"):
        shop.catalog.undrop_table("t")
    for _ in range(3):
        shop.second_pass()

    assert shop.number(shop.t.tables) == 0
    assert shop.objects() == {key for key in objects if tablets[0] in key} != set()


def test_a_table_is_not_undropped_without_a_tablets_records(shop: Shop) -> None:
    tablets = shop.table("t", 2)
    shop.loaded(tablets)
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    shop.later(GRACE + 700)
    with installed(crash_at("owner.forgot")), suppress(Crash):
        shop.round()
    shop.later(HOUR)
    for tablet in tablets:
        give_up(shop, "tablet", tablet)

    with pytest.raises(contract.Refused, match="is gone"):
        shop.catalog.undrop_table("t")


def test_a_discarded_index_with_a_deleted_tablet_stays_dropped(shop: Shop) -> None:
    tablets = shop.table("t", 2, i1=Schema(), i2=Schema())
    shop.loaded(tablets)
    kept, _ = shop.catalog.tablets(index="i2")
    shop.catalog.drop_index("i2")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", kept)
    with shop.db.write() as c:
        mark = shop.db.t.mark
        c.execute(mark.update().where(mark.c.kind == "index").values(quarantined_reason="BAD_KEY"))
    shop.round()
    shop.second_pass()
    QuarantineStore(shop.db).discard("shop", Ref("index", "i2"), "anna")
    shop.catalog.drop_table("t")
    shop.catalog.undrop_table("t")

    with pytest.raises(contract.Refused, match="i2 is gone"):
        shop.catalog.undrop_index("i2")


def test_compacted_rowsets_of_a_discarded_tablet_are_deleted(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = [shop.loaded([tablet])[0] for _ in range(2)]
    kept = set(shop.keys(shop.compacted(tablet, inputs)))
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", tablet)
    for _ in range(3):
        shop.later(10 * DAY)
        shop.round()

    assert shop.objects() == kept
    assert shop.refs() == set()


def test_a_discarded_tablet_belongs_to_no_new_index(shop: Shop) -> None:
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [tablet] = shop.catalog.tablets(index="i2")
    shop.catalog.drop_index("i2")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", tablet)
    discard(shop, "index", "i2")
    shop.round()
    for _ in range(2):
        shop.later(AN_HISTORY)
        shop.round()

    with pytest.raises(AlreadyThere, match="i2"):
        shop.catalog.add_index("t", "i2", Schema(), 1)


def test_a_dropped_rowset_waits_for_no_discarded_input(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = [shop.loaded([tablet])[0] for _ in range(2)]
    output = shop.compacted(tablet, inputs)
    discard(shop, "compacted", inputs[0])
    kept = set(shop.keys(inputs[0]))
    shop.catalog.drop_rowset(output)
    for _ in range(2):
        shop.later(AN_HISTORY)
        shop.round()

    assert shop.objects() == kept
    assert reported(shop) == {f"rowset/{inputs[0]}"}


def test_an_undropped_index_leaves_a_discard_as_it_was(shop: Shop) -> None:
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [kept], [held] = shop.catalog.tablets(index="i2"), shop.catalog.tablets(index="i1")
    files = {key for key in shop.objects() if kept in key}
    hold = Hold(instance="shop", scope="mark", mark_kind="tablet", mark_id=held, reason="look first")
    shop.holds.place(hold, 300 * DAY)  # so the partition waits
    shop.catalog.drop_partition("t-p")
    shop.later(RETAINED)
    shop.round()
    shop.later(700)
    for key in files:  # undeleted, then discarded
        shop.put("disk", key)
    give_up(shop, "tablet", kept)

    shop.catalog.drop_index("i2")
    shop.later(RETAINED)
    shop.expand_all()
    shop.catalog.undrop_index("i2")
    shop.round()

    assert files
    assert files <= shop.objects()


def test_no_tablet_is_marked_again_while_its_partition_ends(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.loaded(shop.table("t", 1, i1=Schema(), i2=Schema()))
    [kept] = shop.catalog.tablets(index="i2")
    shop.catalog.drop_partition("t-p")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", kept)
    shop.catalog.drop_index("i2")
    shop.round()
    shop.later(GRACE + 700)
    claim, done = ClaimStore.claim, list[bool]()

    def expand_and_claim(store: ClaimStore, request: ClaimRequest) -> object:
        if any(ref == Ref("partition", "t-p") for ref in request.refs) and not done:
            done.append(True)
            shop.expand_all()  # as `sexton plan` does, which needs no lease
        return claim(store, request)

    monkeypatch.setattr(ClaimStore, "claim", expand_and_claim)
    shop.round()
    shop.catalog.undrop_index("i2")
    shop.round()

    assert done
    assert not list(shop.catalog_owner.contradictions("shop"))
