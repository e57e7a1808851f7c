"""A drop is one mark; its undrop restores the whole subtree, or is refused with a reason."""

from itertools import pairwise

import pytest
from sqlalchemy import update

from sexton import contract
from sexton.marks.model import Ref
from sexton.owners.catalog import kinds
from sexton.owners.catalog.model import AlreadyDropped, NewTable, Schema
from tests.integration.owners.catalog.shop import FAR_MS, Shop, recorded_statements


def claim(shop: Shop, kind: str, id_: str) -> None:
    mark = shop.db.t.mark
    with shop.db.write() as c:
        values = {"state": "CLAIMED", "batch": 7, "claimed_at": shop.db.now(c)}
        assert c.execute(update(mark).where(mark.c.kind == kind, mark.c.id == id_).values(**values)).rowcount == 1


@pytest.mark.parametrize("kind", ["table", "index", "partition"])
def test_a_drop_is_one_mark_that_its_undrop_removes(shop: Shop, kind: str) -> None:
    tablets = shop.table(tablets=3)
    id_ = {"table": "t", "index": "t-i", "partition": "t-p"}[kind]
    getattr(shop.catalog, f"drop_{kind}")(id_)
    marked = shop.refs()
    with pytest.raises(AlreadyDropped):
        shop.prepared(tablets)

    getattr(shop.catalog, f"undrop_{kind}")(id_)

    assert marked == {Ref(kind, id_)}
    assert shop.refs() == set()
    assert shop.states(shop.loaded(tablets)) == {"visible"}


def test_a_second_drop_is_refused(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")

    for drop, id_ in (
        (shop.catalog.drop_table, "t"),
        (shop.catalog.drop_partition, "t-p"),
        (shop.catalog.drop_index, "t-i"),
    ):
        with pytest.raises(AlreadyDropped):
            drop(id_)

    assert shop.refs() == {Ref("table", "t")}


@pytest.mark.parametrize("indexes", [10, pytest.param(100, marks=pytest.mark.soak)])
def test_a_large_table_is_expanded_by_few_statements(shop: Shop, indexes: int) -> None:
    """10,000 tablets, and 100,000 in `make soak` and in the benchmark."""
    parts = {f"p{n}": 100 for n in range(10)}
    wide = NewTable(id="wide", indexes={f"i{n}": Schema() for n in range(indexes)}, partitions=parts)
    shop.catalog.create_table(wide)
    shop.table("slim", tablets=2)

    dropped, statements, tablets = {}, {}, {}
    for table in ("wide", "slim"):
        with recorded_statements(shop) as dropped[table]:
            shop.catalog.drop_table(table)
        with recorded_statements(shop) as statements[table]:
            shop.expand_all()
        tablets[table] = shop.count("mark", kind="tablet")
        shop.sql("DELETE FROM {}mark")

    assert dropped["wide"] == dropped["slim"]
    assert tablets == {"slim": 2, "wide": indexes * 1_000}
    assert statements["wide"] == statements["slim"]


def test_expanding_twice_marks_nothing_twice(shop: Shop) -> None:
    shop.table(tablets=3)
    shop.catalog.drop_table("t")

    shop.expand_all()
    once = shop.refs()
    shop.expand_all()

    assert shop.refs() == once
    assert {r.kind for r in once} == {"table", "tablet"}


def test_many_tablets_are_marked_in_parts(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.table("large", 10)
    shop.table("small", 2)
    shop.catalog.drop_table("large")
    shop.catalog.drop_table("small")
    monkeypatch.setattr(kinds, "TABLETS_AT_ONCE", 3)
    beats: list[int] = []

    with recorded_statements(shop) as statements:
        shop.catalog_owner.mark_due("shop", {"table": FAR_MS}, lambda: beats.append(shop.count("mark", kind="tablet")))

    assert shop.count("mark", kind="tablet") == 12
    assert sum("INSERT" in s for s in statements) == 4
    assert all(second - first <= 3 for first, second in pairwise(beats))
    assert shop.marked("tablet") == sorted(shop.marked("tablet"), key=lambda mark: mark.id)


def test_a_large_parent_may_be_undropped_between_its_parts(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.table("large", 10)
    shop.table("other", 2)
    shop.catalog.drop_table("large")
    shop.catalog.drop_table("other")
    monkeypatch.setattr(kinds, "TABLETS_AT_ONCE", 3)

    def undrop_once() -> None:
        if shop.count("mark", kind="tablet") == 6 and shop.count("mark", kind="table", id="large"):
            shop.catalog.undrop_table("large")

    shop.catalog_owner.mark_due("shop", {"table": FAR_MS}, undrop_once)

    assert {mark.id for mark in shop.marked("tablet")} == set(shop.catalog.tablets(table="other"))
    assert shop.refs() >= {Ref("table", "other")}


def test_a_tablet_mark_names_its_parents_and_vaults(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.loaded([tablet], segments=3)
    shop.catalog.drop_partition("t-p")

    shop.expand_all()

    row = shop.row("tablet", tablet)
    assert (row.parent_kind, row.parent_id, row.vault) == ("partition", "t-p", None)
    assert (row.prefix, row.bytes) == (f"data/{tablet}/", 30)


def test_a_parent_that_is_not_due_is_not_expanded(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")
    marked_at = shop.marked("table")[0].retention_starts_at

    shop.catalog_owner.mark_due(
        "shop", {"table": marked_at - 1, "partition": marked_at, "index": marked_at}, lambda: None
    )

    assert shop.refs() == {Ref("table", "t")}


def test_a_partition_dropped_first_expands_its_own_tablets(shop: Shop) -> None:
    shop.table(partitions=["p1", "p2"])
    shop.catalog.drop_partition("p1")
    shop.catalog.drop_table("t")

    shop.expand_all()

    parents = {shop.row("tablet", m.id).parent_id for m in shop.marked("tablet")}
    assert parents == {"p1", "t"}


def test_a_mark_of_an_undropped_object_is_not_expanded(shop: Shop) -> None:
    shop.table()
    with shop.db.write() as c:
        contract.mark(c, "shop", "table", [contract.NewMark(id="t", vault=None)])

    shop.expand_all()

    assert shop.marked("tablet") == []
    assert shop.catalog_owner.live("shop", shop.marked("table"), lambda: None).keys() == {Ref("table", "t")}


def test_r37_an_expanded_subtree_comes_back_whole(shop: Shop) -> None:
    tablets = shop.table(partitions=["p1", "p2"])
    rowsets = shop.loaded(tablets)
    shop.catalog.drop_partition("p1")
    shop.catalog.drop_table("t")
    shop.expand_all()
    expanded = {r.kind for r in shop.refs()}

    shop.catalog.undrop_table("t")

    assert expanded >= {"table", "partition", "tablet"}
    assert {r.kind for r in shop.refs()} == {"txn_label"}
    assert shop.states([*rowsets, *shop.loaded(tablets)]) == {"visible"}
    assert shop.catalog_owner.live_objects("shop") == 4


def test_r37_an_undrop_below_a_dropped_parent_is_refused(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_partition("t-p")
    shop.catalog.drop_table("t")

    with pytest.raises(contract.Refused, match="ancestor table t"):
        shop.catalog.undrop_partition("t-p")

    assert shop.refs() == {Ref("table", "t"), Ref("partition", "t-p")}
    assert shop.record(shop.t.partitions, "t-p").dropped


def test_r37_an_undrop_with_a_claimed_tablet_is_refused(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    shop.catalog.drop_table("t")
    shop.expand_all()
    claim(shop, "tablet", tablets[0])

    with pytest.raises(contract.Refused, match=f"tablet {tablets[0]} is claimed"):
        shop.catalog.undrop_table("t")

    assert shop.refs() == {Ref("table", "t"), *(Ref("tablet", t) for t in tablets)}
    assert shop.record(shop.t.tables, "t").dropped


def test_r46_a_table_with_a_claimed_partition_is_not_undropped(shop: Shop) -> None:
    shop.table(partitions=["p1", "p2"])
    shop.catalog.drop_partition("p1")
    shop.catalog.drop_table("t")
    claim(shop, "partition", "p1")

    with pytest.raises(contract.Refused, match="partition p1 is claimed"):
        shop.catalog.undrop_table("t")

    assert shop.refs() == {Ref("table", "t"), Ref("partition", "p1")}


def test_a_dropped_index_and_a_dropped_partition_share_a_tablet(shop: Shop) -> None:
    tablets = shop.table()
    shop.catalog.drop_index("t-i")
    shop.catalog.drop_partition("t-p")
    shop.expand_all()

    shop.catalog.undrop_partition("t-p")
    shop.expand_all()

    assert shop.refs() == {Ref("index", "t-i"), Ref("tablet", tablets[0])}
    assert shop.row("tablet", tablets[0]).parent_id == "t-i"


def test_an_index_of_a_dropped_table_is_not_altered(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")

    with pytest.raises(AlreadyDropped, match="t of the tables was dropped"):
        shop.catalog.alter_index("t-i", 2, Schema())
