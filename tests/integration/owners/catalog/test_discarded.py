"""A record whose mark an operator discarded is reported and stays, with its files."""

from functools import partial

import pytest

from config.settings import Settings
from sexton import contract
from sexton.deployment import Deployment
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.owners.catalog.errors import AlreadyThere, CatalogError
from sexton.owners.catalog.model import NewTable, Schema
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.integration.owners.catalog.shop import HOUR, PREPARED, RETAINED, Shop
from tests.support.rig import DAY, DEPLOYMENT


def discard(shop: Shop, kind: str, id_: str) -> None:
    """Quarantine a mark, and discard it as an operator does."""
    with shop.db.write() as c:
        mark = shop.db.t.mark
        is_mark = (mark.c.kind == kind) & (mark.c.id == id_)
        assert c.execute(mark.update().where(is_mark).values(quarantined_reason="BAD_KEY")).rowcount == 1
    QuarantineStore(shop.db).discard("shop", Ref(kind, id_), "anna")


def reported(shop: Shop) -> set[str]:
    """Return the records that a check reports because nothing deletes them."""
    texts = shop.catalog_owner.contradictions("shop")
    return {f"{text.kind}/{text.id}" for text in texts if "has no mark" in text.text}


@pytest.mark.parametrize("kind", ["table", "index", "partition"])
def test_what_was_dropped_and_discarded_stays(shop: Shop, kind: str) -> None:
    shop.loaded(shop.table("t", 2))
    id_ = {"table": "t", "index": "t-i", "partition": "t-p"}[kind]
    objects = shop.objects()
    getattr(shop.catalog, f"drop_{kind}")(id_)
    before = reported(shop)
    discard(shop, kind, id_)
    after = reported(shop)

    with pytest.raises(contract.Refused, match=f"{id_} is gone"):
        getattr(shop.catalog, f"undrop_{kind}")(id_)
    shop.later(30 * DAY)
    shop.round()

    assert (before, after) == (set(), {f"{kind}/{id_}"})
    assert objects
    assert shop.objects() == objects


@pytest.mark.parametrize("kind", ["table", "index", "partition"])
def test_a_parent_with_marked_tablets_is_not_discarded(shop: Shop, kind: str) -> None:
    shop.loaded(shop.table("t", 2))
    objects = shop.objects()
    id_ = {"table": "t", "index": "t-i", "partition": "t-p"}[kind]
    getattr(shop.catalog, f"drop_{kind}")(id_)
    shop.later(RETAINED)
    shop.expand_all()
    mark = shop.db.t.mark
    with shop.db.write() as c:
        c.execute(mark.update().where(mark.c.kind == kind).values(quarantined_reason="BAD_KEY"))

    with pytest.raises(BadInput, match="undrop it, or discard those first"):
        Deployment(Settings(deployment=DEPLOYMENT), shop.db).discard("shop", Ref(kind, id_), "anna")
    getattr(shop.catalog, f"undrop_{kind}")(id_)
    shop.round()

    assert shop.objects() == objects


def test_what_is_in_a_marked_tablet_is_not_discarded_alone(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    rowset = shop.loaded([tablet])[0]
    files = set(shop.keys(rowset))
    shop.catalog.drop_rowset(rowset)
    shop.catalog.drop_partition("t-p")
    shop.expand_all()
    with pytest.raises(BadInput, match=f"tablet {tablet} is marked"):
        discard(shop, "dropped", rowset)
    shop.catalog.undrop_partition("t-p")
    discard(shop, "dropped", rowset)
    shop.later(30 * DAY)
    shop.round()

    assert files <= shop.objects()


def test_discarded_rowsets_and_ends_are_reported(shop: Shop) -> None:
    tablets = shop.table()
    txn, [rowset] = shop.written(tablets)
    dropped = shop.loaded(tablets)[0]
    shop.catalog.drop_rowset(dropped)
    shop.catalog.abort(txn)
    before = reported(shop)
    shop.later(HOUR + PREPARED)
    for kind, id_ in (("prepared", rowset), ("dropped", dropped), ("txn_label", txn)):
        discard(shop, kind, id_)
    assert before == set()
    assert reported(shop) == {f"rowset/{rowset}", f"rowset/{dropped}", f"txn/{txn}"}
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()

    assert shop.objects() == set()
    assert reported(shop) == {f"txn/{txn}"}


@pytest.mark.parametrize("kind", ["index", "partition"])
def test_a_discarded_part_of_a_dropped_table_stays_dropped(shop: Shop, kind: str) -> None:
    shop.loaded(shop.table())
    id_ = f"t-{kind[0]}"
    getattr(shop.catalog, f"drop_{kind}")(id_)
    discard(shop, kind, id_)
    shop.catalog.drop_table("t")

    with pytest.raises(contract.Refused, match="ancestor table t"):
        getattr(shop.catalog, f"undrop_{kind}")(id_)
    shop.later(RETAINED)
    shop.round()

    assert shop.objects() == set()


def test_what_was_deleted_is_not_undropped(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    shop.second_pass()

    with pytest.raises(contract.Refused):
        shop.catalog.undrop_table("t")


@pytest.mark.parametrize("kind", ["table", "index", "partition"])
def test_an_id_of_something_deleted_is_refused(shop: Shop, kind: str) -> None:
    shop.table("t")
    getattr(shop.catalog, f"drop_{kind}")({"table": "t", "index": "t-i", "partition": "t-p"}[kind])
    shop.later(RETAINED)
    shop.round()
    shop.second_pass()

    create = {
        "table": partial(shop.table, "t"),
        "index": partial(shop.catalog.create_table, NewTable(id="t2", indexes={"t-i": Schema()})),
        "partition": partial(shop.catalog.add_partition, "t", "t-p", 1),
    }
    with pytest.raises(AlreadyThere, match="was used before"):
        create[kind]()


@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_prepared_rowset_outlives_its_discarded_tablet(shop: Shop, is_discarded: bool) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet])
    _, [rowset] = shop.written([tablet])
    [key] = shop.keys(rowset)
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.expand_all()
    discard(shop, "tablet", tablet)
    shop.round()
    assert shop.number(shop.t.tables) == 0
    assert not list(shop.catalog_owner.contradictions("shop"))  # its mark deletes it

    if is_discarded:
        discard(shop, "prepared", rowset)
    shop.later(PREPARED)
    shop.round()
    shop.later(2 * RETAINED)
    shop.round()

    texts = [text.text for text in shop.catalog_owner.contradictions("shop")]
    assert (key in shop.objects()) == is_discarded
    assert texts == ([f"its tablet has no record: {tablet}"] if is_discarded else [])


@pytest.mark.parametrize("is_discarded", [False, True])
def test_a_load_is_committed_whole_or_not(shop: Shop, is_discarded: bool) -> None:
    shop.table("t", 1, partitions=("p1", "p2"))
    [dropped], [used] = shop.catalog.tablets(partition="p1"), shop.catalog.tablets(partition="p2")
    txn = shop.catalog.begin("l", 10 * DAY)
    shop.write(*shop.catalog.prepare_rowsets(txn, [dropped, used], "disk"))
    shop.catalog.drop_partition("p1")
    shop.later(RETAINED)
    shop.expand_all()
    if is_discarded:
        discard(shop, "tablet", dropped)
    for _ in range(2):
        shop.round()
        shop.second_pass()
    assert not shop.catalog.tablets(partition="p1")

    with pytest.raises((CatalogError, contract.ContractError)):
        shop.catalog.commit(txn)
