"""The catalog expands marks to exact files, names live objects, aborts late loads, and forgets records."""

import random
from itertools import cycle

from sexton import contract
from sexton.marks.model import Expansion, Reason, Ref
from sexton.owners.catalog.model import IndexFormat
from sexton.owners.plugins import add_instance
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
    tablet, inputs = shop.filled(2)
    output = shop.compacted(tablet, inputs)
    before = shop.catalog_owner.live("shop", shop.marked("compacted"), no_heartbeat)
    shop.change(shop.t.rowsets, output, first_version=3)

    after = shop.catalog_owner.live("shop", shop.marked("compacted"), no_heartbeat)

    assert before == {}
    assert after.keys() == {Ref("compacted", inputs[0])}


def test_compacted_rowset_is_live_unless_its_versions_are_held(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    shop.compacted(tablet, inputs)
    outputs = [shop.loaded([tablet])[0] for _ in range(3)]
    marks = [mark for mark in shop.marked("compacted") if mark.id == inputs[0]]
    disagreeing = []
    for seed in range(100):
        numbers, states = random.Random(seed % 50), ("visible",) if seed < 50 else ("dropped", "visible")
        ranges = [sorted(numbers.choices(range(100, 108), k=2)) for _ in outputs]
        first, last = sorted(numbers.choices(range(100, 108), k=2))
        for output, (start, end), state in zip(outputs, ranges, cycle(states), strict=False):
            shop.change(shop.t.rowsets, output, first_version=start, last_version=end, state=state)
        shop.change(shop.t.rowsets, inputs[0], first_version=first, last_version=last)
        is_live = bool(shop.catalog_owner.live("shop", marks, no_heartbeat))
        if is_live == all(any(start <= v <= end for start, end in ranges) for v in range(first, last + 1)):
            disagreeing.append((first, last, ranges, states))

    assert disagreeing == []
    shop.change(shop.t.rowsets, inputs[0], first_version=None, last_version=None)
    assert shop.catalog_owner.live("shop", marks, no_heartbeat).keys() == {Ref("compacted", inputs[0])}


def test_damaged_versions_hold_nothing_and_stop_no_other_mark(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    shop.compacted(tablet, inputs)
    [other] = shop.loaded([tablet])
    sound, damaged = inputs
    for first, last in ((9, 4), (2, 2**63 - 1)):
        for rowset in (damaged, other):
            shop.change(shop.t.rowsets, rowset, first_version=first, last_version=last)

        live = shop.catalog_owner.live("shop", shop.marked("compacted"), no_heartbeat)

        assert live.keys() == {Ref("compacted", damaged)}, (first, last, sound)


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
    records = shop.records(getattr(shop.t, table))
    return [r.id for r in records if all(r._mapping[k] == v for k, v in where.items())]


def test_records_of_another_instance_are_not_touched(shop: Shop) -> None:
    shop.table()
    shop.catalog.drop_table("t")
    add_instance(shop.db, shop.registry, "other", "catalog")

    shop.catalog_owner.mark_due("other", {"table": 10**14}, no_heartbeat)
    shop.catalog_owner.forget("other", lambda _: [Ref("table", "t")])

    assert shop.refs() == {Ref("table", "t")}
    assert shop.record(shop.t.tables, "t").dropped
    assert shop.catalog_owner.live_objects("other") == 0


def test_a_foreign_mark_on_a_live_file_is_kept(shop: Shop) -> None:
    shop.loaded(shop.table())
    [key, *_] = sorted(shop.objects("disk"))
    folder, _, name = key.rpartition("/")
    before = shop.objects("disk")
    marks = [contract.NewMark(id="key", vault="disk", keys=(key,))]
    for prefix in (f"{folder}/{name.split('_')[0]}_", f"{folder}/", "data/"):
        marks.append(contract.NewMark(id=f"prefix{len(marks)}", vault="disk", prefix=prefix))
    shop.mark("orphan", *marks)

    report = shop.round(after=1_000_000)

    assert shop.objects("disk") == before
    assert kept_texts(report) == {"live": 4}


def expanded(shop: Shop, kind: str) -> dict[str, Expansion]:
    found = shop.catalog_owner.expand("shop", shop.marked(kind), no_heartbeat)
    return {ref.id: e for ref, e in found.items()}


def test_a_rowset_is_expanded_to_exactly_its_files(shop: Shop) -> None:
    shop.table(**SCHEMAS)
    for name in SCHEMAS:
        for bitmap in (False, True):
            [rowset] = shop.loaded(shop.catalog.tablets(index=name), segments=2, bitmap=bitmap)
            keys = shop.keys(rowset)
            shop.catalog.drop_rowset(rowset)

            answer = expanded(shop, "dropped")[rowset]

            assert [(p.vault, sorted(p.keys or ())) for p in answer.places] == [("disk", sorted(keys))]
            assert len(keys) == {"none": 2, "v1": 6, "v2": 4}[name] + bitmap
            assert (answer.fence, answer.absorbs, answer.lacking, answer.problem) == (False, False, None, None)


def test_rowsets_keep_the_schema_they_were_written_with(shop: Shop) -> None:
    tablets = shop.table(i=SCHEMAS["none"])
    old = shop.loaded(tablets)
    shop.catalog.alter_index("i", 2, SCHEMAS["v1"])
    new = shop.loaded(tablets)
    for rowset in (*old, *new):
        shop.catalog.drop_rowset(rowset)

    answers = expanded(shop, "dropped")

    assert [len(answers[r].places[0].keys or ()) for r in (*old, *new)] == [1, 3]


def test_r19_a_missing_schema_hides_only_v1_index_files(shop: Shop) -> None:
    tablets = shop.table(i=SCHEMAS["v1"])
    rowsets = [shop.loaded(tablets, format=f, bitmap=True)[0] for f in (None, IndexFormat.V1, IndexFormat.V2)]
    for rowset in rowsets:
        shop.catalog.drop_rowset(rowset)
    shop.lose(shop.t.schemas)

    answers = [expanded(shop, "dropped")[r] for r in rowsets]

    names = [[k.split("_", 1)[1] for p in a.places for k in p.keys or ()] for a in answers]
    assert names == [
        ["0.dat", "0.idx", "delete_bitmap.db"],
        ["0.dat", "delete_bitmap.db"],
        ["0.dat", "0.idx", "delete_bitmap.db"],
    ]
    assert [a.lacking for a in answers] == [Reason.SCHEMA_MISSING, Reason.SCHEMA_MISSING, None]
    assert shop.catalog_owner.resolvable("shop", shop.marked("dropped")) == set()


def test_a_second_expansion_lists_the_remaining_files(shop: Shop) -> None:
    tablets = shop.table()
    [rowset] = shop.loaded(tablets)
    shop.catalog.drop_rowset(rowset)
    second_passes = [m._replace(in_second_pass=True) for m in shop.marked("dropped")]

    [answer] = shop.catalog_owner.expand("shop", second_passes, no_heartbeat).values()

    assert [(p.prefix, p.keys) for p in answer.places] == [(f"data/{tablets[0]}/{rowset}_", None)]


def test_an_unreadable_rowset_record_is_a_problem_not_a_crash(shop: Shop) -> None:
    tablets, wrong = shop.table(), ({"format": "V3"}, {"tablet_id": "a_b"}, {"id": "another"})
    rowsets = [shop.loaded(tablets)[0] for _ in wrong]
    shop.catalog.drop_rowset(*rowsets)
    for rowset, values in zip(rowsets, wrong, strict=True):
        shop.change(shop.t.rowsets, rowset, **values)

    answers = expanded(shop, "dropped")

    for rowset in rowsets:
        assert answers[rowset].places == ()
        assert answers[rowset].problem is not None
        assert answers[rowset].problem[0] is Reason.UNEXPANDED


def test_a_tablet_is_in_every_vault_of_its_rowsets_and_marks(shop: Shop) -> None:
    full, empty = shop.table(tablets=2)
    for name in ("two", "three", "four"):
        shop.local(shop.roots["disk"].parent / name, name)
    shop.loaded([full])
    shop.prepared([full], "two")
    marked = shop.loaded([full], "three") + shop.loaded([full], "four")
    for rowset in marked:
        shop.catalog.drop_rowset(rowset)
    shop.lose(shop.t.rowsets, id=marked[1])  # its mark still names the vault
    shop.catalog.drop_table("t")
    shop.expand_all()

    answers = expanded(shop, "tablet")

    assert {p.vault for p in answers[full].places} == {"disk", "two", "three", "four"}
    assert {p.prefix for p in answers[full].places} == {f"data/{full}/"}
    assert (answers[full].absorbs, answers[empty].places) == (True, ())


def test_a_parent_waits_for_its_marks_and_tablets(shop: Shop) -> None:
    shop.table("t")
    shop.table("u")
    shop.catalog.drop_partition("t-p")
    shop.catalog.drop_table("t")
    shop.catalog.drop_table("u")
    before = expanded(shop, "table")
    shop.expand_all()
    shop.lose(shop.db.t.mark, parent_id="u")
    shop.lose(shop.t.tablets, table_id="u")

    after = expanded(shop, "table")

    assert {i: e.waits for i, e in before.items()} == {"t": "its children", "u": "its children"}
    assert {i: e.waits for i, e in after.items()} == {"t": "its children", "u": ""}
    assert after["u"].places == ()


def test_a_kind_of_another_owner_names_its_own_files(shop: Shop) -> None:
    [rowset] = shop.loaded(shop.table())
    shop.catalog.drop_rowset(rowset)
    [own] = shop.marked("dropped")
    marks = [own._replace(kind="foreign", prefix="own/")]

    [expansion] = shop.catalog_owner.expand("shop", marks, no_heartbeat).values()
    assert [place.prefix for place in expansion.places] == ["own/"]
    assert shop.catalog_owner.live("shop", marks, no_heartbeat) == {}
