"""The catalog names live objects, aborts loads past their timeout, and forgets records of deleted marks."""

import pytest
from sqlalchemy import text

from sexton import contract
from sexton.marks.model import Ref
from sexton.owners.catalog.layout import IndexFormat
from sexton.owners.plugins import add_instance
from sexton.owners.port import OwnerSilent
from tests.integration.owners.catalog.shop import SCHEMAS, Shop, no_heartbeat, recorded_statements
from tests.support.kept import kept_texts


def test_readable_rowsets_are_live_even_if_marked(shop: Shop) -> None:
    tablets = shop.table()
    txn, [tmp] = shop.written(tablets)
    [rowset] = shop.loaded(tablets)
    shop.table("gone")
    [away] = shop.loaded(shop.catalog.tablets(table="gone"))
    shop.catalog.drop_rowset(away)
    shop.catalog.drop_table("gone")
    shop.expand_all()
    [mark] = shop.marked("dropped")
    asked = [
        mark._replace(kind=kind, id=i)
        for kind, i in (
            *(("table", "t"), ("table", "gone"), ("index", "t-i"), ("index", "gone-i")),
            *(("partition", "t-p"), ("partition", "gone-p"), ("tablet", tablets[0])),
            *(("tablet", shop.catalog.tablets(table="gone")[0]), ("dropped", rowset), ("dropped", away)),
            *(("prepared", tmp), ("prepared", rowset), ("compacted", rowset), ("txn_label", txn)),
        )
    ]

    live = shop.catalog_owner.live("shop", asked, no_heartbeat)

    assert live.keys() == {
        *(Ref("table", "t"), Ref("index", "t-i"), Ref("partition", "t-p"), Ref("tablet", tablets[0])),
        *(Ref("dropped", rowset), Ref("prepared", rowset), Ref("compacted", rowset), Ref("txn_label", txn)),
    }


def test_compacted_rowsets_are_live_until_the_output_is_visible(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = shop.loaded([tablet]) + shop.loaded([tablet])
    output = shop.compacted(tablet, inputs)
    before = shop.catalog_owner.live("shop", shop.marked("compacted"), no_heartbeat)
    shop.change(shop.t.rowsets, output, first_version=3)

    after = shop.catalog_owner.live("shop", shop.marked("compacted"), no_heartbeat)

    assert before == {}
    assert after.keys() == {Ref("compacted", inputs[0])}


def test_inputs_of_a_dropped_rowset_are_not_live(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = shop.loaded([tablet]) + shop.loaded([tablet])
    shop.catalog.drop_rowset(shop.compacted(tablet, inputs))

    live = shop.catalog_owner.live("shop", shop.marked("compacted"), no_heartbeat)

    assert live == {}


def test_live_objects_are_counted_by_one_statement(shop: Shop) -> None:
    tablets = shop.table(none=SCHEMAS["none"], v1=SCHEMAS["v1"], v2=SCHEMAS["v2"])
    shop.loaded(tablets, segments=2, bitmap=True)
    shop.loaded(tablets, format=IndexFormat.V1)
    shop.written(tablets)
    shop.table("gone")
    shop.loaded(shop.catalog.tablets(table="gone"))
    shop.catalog.drop_table("gone")

    with recorded_statements(shop) as statements:
        live = shop.catalog_owner.live_objects("shop")

    assert live == (2 + 6 + 4 + 3) + (1 + 3 + 3)
    assert sum("sum(" in s for s in statements) == 1


def test_only_loads_past_their_timeout_are_aborted(shop: Shop) -> None:
    late = shop.catalog.begin("late", 60)
    part = shop.catalog.begin_sub(late)
    kept = {status: shop.catalog.begin(status, 60) for status in ("PRECOMMITTED", "COMMITTED", "ODD")}
    for status, txn in kept.items():
        shop.change(shop.t.txns, txn, status=status)
    running = shop.catalog.begin("running", 120)
    shop.later(61)

    shop.catalog_owner.abort_expired("shop", no_heartbeat)

    assert {shop.record(shop.t.txns, t).status for t in (late, part)} == {"ABORTED"}
    assert [shop.record(shop.t.txns, t).status for t in kept.values()] == list(kept)
    assert shop.record(shop.t.txns, running).status == "PREPARED"
    assert shop.refs() == {Ref("txn_label", late)}


def test_only_dropped_or_aborted_records_are_forgotten(shop: Shop) -> None:
    tablets = shop.table()
    running, _ = shop.written(tablets)
    shop.loaded(tablets)
    tables = [shop.t.rowsets, shop.t.tablets, shop.t.stats, shop.t.tables, shop.t.indexes, shop.t.schemas]
    tables += [shop.t.partitions, shop.t.versions, shop.t.txns, shop.t.labels]
    before = [shop.number(t) for t in tables]
    rowsets = [Ref(k, m) for k in ("compacted", "dropped") for m in _ids(shop, "rowsets")]
    visible = [Ref("prepared", r) for r in _ids(shop, "rowsets", state="visible")]
    above = [Ref("table", "t"), Ref("index", "t-i"), Ref("partition", "t-p"), Ref("tablet", tablets[0])]

    refs = [*rowsets, *visible, *above, Ref("txn_label", running), Ref("orphan", "x")]
    shop.catalog_owner.forget("shop", lambda _: refs)

    assert [shop.number(t) for t in tables] == before
    assert 0 not in before


def _ids(shop: Shop, table: str, **where: str) -> list[str]:
    with shop.db.read() as c:
        t = getattr(shop.t, table)
        return [r.id for r in c.execute(t.select()) if all(r._mapping[k] == v for k, v in where.items())]


def test_records_of_another_instance_are_not_touched(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")
    add_instance(shop.db, shop.registry, "other", "catalog")

    shop.catalog_owner.mark_due("other", {"table": 10**14}, no_heartbeat)
    shop.catalog_owner.forget("other", lambda _: [Ref("table", "t")])

    assert shop.refs() == {Ref("table", "t")}
    assert shop.record(shop.t.tables, "t").dropped
    assert shop.catalog_owner.live_objects("other") == 0


def test_a_catalog_without_tables_is_silent_not_a_crash(shop: Shop) -> None:
    shop.table()
    marks = [m.model_copy(update={"kind": "dropped"}) for m in shop.marked("table")]
    with shop.db.write() as c:
        c.execute(text(f"ALTER TABLE {shop.t.txns.fullname} RENAME TO away"))
    try:
        with pytest.raises(OwnerSilent, match="catalog"):
            shop.catalog_owner.abort_expired("shop", no_heartbeat)
        assert shop.catalog_owner.live("shop", marks, no_heartbeat) == {}
    finally:
        with shop.db.write() as c:
            c.execute(text(f"ALTER TABLE sexton_catalog.away RENAME TO {shop.t.txns.name}"))


@pytest.mark.parametrize("how", ["key", "rowset", "tablet", "everything"])
def test_a_foreign_mark_on_a_live_file_is_kept(shop: Shop, how: str) -> None:
    tablets = shop.table()
    shop.loaded(tablets)
    [key, *_] = sorted(shop.objects("disk"))
    folder, _, name = key.rpartition("/")
    prefix = {"rowset": f"{folder}/{name.split('_')[0]}_", "tablet": f"{folder}/", "everything": "data/"}
    files = {"keys": (key,)} if how == "key" else {"prefix": prefix[how]}
    before = shop.objects("disk")
    with shop.db.write() as c:
        contract.mark(c, "shop", "orphan", [contract.NewMark(id="mistaken", vault="disk", **files)])
    shop.later(1_000_000)

    report = shop.round()

    assert shop.objects("disk") == before
    assert kept_texts(report) == {"live": 1}
