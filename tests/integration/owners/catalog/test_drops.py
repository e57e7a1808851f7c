"""A drop is one mark; its undrop restores the whole subtree also beside rounds, or is refused with a reason."""

import threading
from itertools import pairwise

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from sexton import contract
from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import SextonError
from sexton.marks.model import Ref
from sexton.owners.catalog import kinds
from sexton.owners.catalog.model import AlreadyDropped, NewTable, Schema
from sexton.owners.catalog.records import CatalogTransaction
from sexton.owners.catalog.store import Catalog
from tests.integration.owners.catalog.shop import FAR_MS, RETAINED, SUFFIXES, Shop, id_of, recorded_statements
from tests.support.crashes import Crash, crash_at
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_until_blocked_or_ended
from tests.support.rig import GRACE


def claim(shop: Shop, kind: str, id_: str) -> None:
    assert shop.row(kind, id_) is not None
    shop.update("mark", {"kind": kind, "id": id_}, state="CLAIMED", batch=7, claimed_at=shop.now())


def test_a_drop_is_one_mark_that_its_undrop_removes(shop: Shop) -> None:
    tablets = {kind: shop.table(kind, 3) for kind in SUFFIXES}
    for kind in SUFFIXES:
        shop.drop(kind, kind)
    marked = shop.refs()
    for kind in SUFFIXES:
        with pytest.raises(AlreadyDropped):
            shop.prepared(tablets[kind])
        shop.undrop(kind, kind)

    assert marked == {Ref(kind, id_of(kind, kind)) for kind in SUFFIXES}
    assert shop.refs() == set()
    assert shop.states(shop.loaded([tablet for each in tablets.values() for tablet in each])) == {"visible"}


def test_a_dropped_table_is_not_dropped_again_or_altered(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")

    for kind in SUFFIXES:
        with pytest.raises(AlreadyDropped):
            shop.drop(kind)
    with pytest.raises(AlreadyDropped, match="t of the tables was dropped"):
        shop.catalog.alter_index("t-i", 2, Schema())

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


def test_many_tablets_are_marked_in_parts(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.table("large", 10)
    shop.table("small", 2)
    shop.catalog.drop_table("large")
    shop.catalog.drop_table("small")
    monkeypatch.setattr(kinds, "TABLETS_AT_ONCE", 3)
    for parents, parts in ((1, 5), (2, 4)):
        monkeypatch.setattr(kinds, "PARENTS_AT_ONCE", parents)
        shop.sql("DELETE FROM {}mark WHERE kind = 'tablet'")
        beats: list[int] = []

        def beat(beats: list[int] = beats) -> None:
            beats.append(shop.count("mark", kind="tablet"))

        with recorded_statements(shop) as statements:
            shop.catalog_owner.mark_due("shop", {"table": FAR_MS}, beat)

        assert shop.count("mark", kind="tablet") == 12
        assert sum("INSERT" in s for s in statements) == parts
        assert all(second - first <= 3 for first, second in pairwise(beats))


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


def test_a_partition_dropped_first_expands_its_own_tablets(shop: Shop) -> None:
    shop.table(partitions=["p1", "p2"])
    shop.catalog.drop_partition("p1")
    shop.catalog.drop_table("t")

    shop.expand_all()

    parents = {shop.row("tablet", m.id).parent_id for m in shop.marked("tablet")}
    assert parents == {"p1", "t"}


def test_a_mark_of_an_undropped_object_is_not_expanded(shop: Shop) -> None:
    shop.table()
    shop.mark("table", contract.NewMark(id="t", vault=None))

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


def test_compactions_deleted_before_the_drop_block_no_undrop(shop: Shop) -> None:
    tablets = shop.table()
    shop.compacted(tablets[0], [shop.loaded(tablets)[0] for _ in range(2)])
    shop.round(after=2_000)
    live = shop.objects()
    shop.catalog.drop_partition("t-p")
    shop.hold("partition", "t-p")
    shop.round(after=RETAINED)

    shop.catalog.undrop_partition("t-p")

    assert shop.count("mark_history", kind="compacted") == 2
    assert shop.objects() == live
    assert shop.count("mark", kind="tablet") == 0


@pytest.mark.slow
def test_a_partition_deleted_before_the_drop_blocks_no_undrop(shop: Shop) -> None:
    shop.loaded(shop.table())
    shop.drop("partition", later=RETAINED)
    shop.round()
    shop.second_pass()
    shop.round()
    assert shop.count("mark_history", kind="partition") == 1
    shop.catalog.drop_table("t")

    shop.catalog.undrop_table("t")

    assert shop.count("mark", kind="table") == 0


def test_a_precommitted_load_commits_after_a_crash_at_the_fence(shop: Shop) -> None:
    txn, _ = shop.written(shop.table())
    ever = shop.now() + 864_000_000
    shop.change(shop.t.txns, txn, timeout_at=ever)
    shop.catalog.precommit(txn)
    shop.drop("table", later=RETAINED)
    with installed(crash_at("owner.fenced")), pytest.raises(Crash):
        shop.round()
    shop.catalog.undrop_table("t")
    shop.round(after=120)

    shop.catalog.commit(txn)

    assert shop.count("mark", kind="prepared") == 0


@pytest.fixture
def loaded(shop: Shop) -> Shop:
    """A shop with a table of two rowsets."""
    shop.loaded(shop.table("t", 2))
    return shop


def undropped_while_expanded(shop: Shop, kind: str) -> None:
    """Undrop in a connection of its own, while the transaction that marks the tablets is open."""
    undropping, expanding = Database.open(shop.url), Database.open(shop.url)
    undrop = getattr(Catalog(undropping, "shop"), f"undrop_{kind}")
    thread = threading.Thread(target=undrop, args=[id_of(kind)])
    with expanding.write() as c:
        kinds.mark_tablets(CatalogTransaction(expanding, c, "shop"), kind, FAR_MS)
        thread.start()
        wait_until_blocked_or_ended(shop.db, thread)
    thread.join()
    undropping.close()
    expanding.close()


def test_no_mark_of_a_tablet_is_left(loaded: Shop) -> None:
    for kind in SUFFIXES:
        loaded.drop(kind)

        undropped_while_expanded(loaded, kind)

        assert loaded.marked("tablet") == []


def test_a_partition_dropped_later_has_its_retention(loaded: Shop) -> None:
    before = loaded.objects()
    loaded.catalog.drop_table("t")
    undropped_while_expanded(loaded, "table")
    loaded.round(after=RETAINED)
    in_use = loaded.objects()
    loaded.catalog.drop_partition("t-p")
    loaded.round()

    assert (in_use, loaded.objects()) == (before, before)


@pytest.mark.parametrize("kind", SUFFIXES)
def test_what_a_round_removes_just_now_is_refused_at_once(loaded: Shop, kind: str) -> None:
    loaded.drop(kind)
    loaded.round(after=RETAINED)
    loaded.later(GRACE + 700)
    undropping, answers, faults = Database.open(loaded.url), list[BaseException](), list[str]()

    def undrop() -> None:
        try:
            getattr(Catalog(undropping, "shop"), f"undrop_{kind}")(id_of(kind))
        except (SextonError, OperationalError) as e:
            answers.append(e)

    thread = threading.Thread(target=undrop)
    record = {"table": "tables", "index": "indexes", "partition": "partitions"}[kind]

    def before(*arguments: object) -> None:
        if str(arguments[2]).startswith(f"DELETE FROM sexton_catalog.{record} ") and not thread.ident:
            thread.start()
            wait_until_blocked_or_ended(loaded.db, thread)

    event.listen(loaded.owners.engine, "before_cursor_execute", before)
    event.listen(loaded.owners.engine, "handle_error", lambda context: faults.append(str(context.original_exception)))
    for _ in range(2):  # a parent ends in the round after its tablets
        if not thread.ident:
            loaded.round()
    thread.join(PATIENCE_SECONDS)
    undropping.close()

    assert not faults
    assert [type(answer) for answer in answers] == [contract.Refused]
