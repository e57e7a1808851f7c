"""The catalog expands a mark to its exact files in every vault, with few statements for many marks."""

import pytest
from sqlalchemy import delete

from sexton.marks.model import Expansion, Reason
from sexton.owners.catalog.layout import IndexFormat
from tests.integration.owners.catalog.shop import SCHEMAS, Shop, no_heartbeat, recorded_statements


def expanded(shop: Shop, kind: str) -> dict[str, Expansion]:
    found = shop.catalog_owner.expand("shop", shop.marked(kind), no_heartbeat)
    return {ref.id: e for ref, e in found.items()}


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("bitmap", [False, True])
def test_a_rowset_is_expanded_to_exactly_its_files(shop: Shop, name: str, bitmap: bool) -> None:
    tablets = shop.table(**{name: SCHEMAS[name]})
    [rowset] = shop.loaded(tablets, segments=2, bitmap=bitmap)
    keys = shop.keys(rowset)
    shop.catalog.drop_rowset(rowset)

    answer = expanded(shop, "dropped")[rowset]

    assert [(p.vault, sorted(p.keys or ())) for p in answer.places] == [("disk", sorted(keys))]
    assert len(keys) == {"none": 2, "v1": 6, "v2": 4}[name] + bitmap
    assert (answer.fence, answer.absorbs, answer.lacking, answer.problem) == (False, False, None, None)


def test_r20_a_rowsets_own_format_overrides_its_schemas(shop: Shop) -> None:
    tablets = shop.table(i=SCHEMAS["v1"])
    [rowset] = shop.loaded(tablets, format=IndexFormat.V2)
    shop.catalog.drop_rowset(rowset)

    [place] = expanded(shop, "dropped")[rowset].places

    assert place.keys == (f"data/{tablets[0]}/{rowset}_0.dat", f"data/{tablets[0]}/{rowset}_0.idx")


def test_rowsets_keep_the_schema_they_were_written_with(shop: Shop) -> None:
    tablets = shop.table(i=SCHEMAS["none"])
    old = shop.loaded(tablets)
    shop.catalog.alter_index("i", 2, SCHEMAS["v1"])
    new = shop.loaded(tablets)
    for rowset in (*old, *new):
        shop.catalog.drop_rowset(rowset)

    answers = expanded(shop, "dropped")

    assert [len(answers[r].places[0].keys or ()) for r in (*old, *new)] == [1, 3]


def test_a_schema_is_read_once_for_all_rowsets(shop: Shop) -> None:
    tablets = shop.table(tablets=20, a=SCHEMAS["v1"], b=SCHEMAS["v2"])
    for rowset in shop.loaded(tablets):
        shop.catalog.drop_rowset(rowset)

    marks = shop.marked("dropped")
    with recorded_statements(shop) as for_one:
        shop.catalog_owner.expand("shop", marks[:1], no_heartbeat)
    with recorded_statements(shop) as for_all:
        answers = shop.catalog_owner.expand("shop", marks, no_heartbeat)

    assert len(answers) == 40
    assert sum("schemas" in s for s in for_all) == 1
    assert len(for_all) == len(for_one)


def test_r19_a_missing_schema_hides_only_v1_index_files(shop: Shop) -> None:
    tablets = shop.table(i=SCHEMAS["v1"])
    rowsets = [shop.loaded(tablets, format=f, bitmap=True)[0] for f in (None, IndexFormat.V1, IndexFormat.V2)]
    for rowset in rowsets:
        shop.catalog.drop_rowset(rowset)
    with shop.db.write() as c:
        c.execute(delete(shop.t.schemas))

    answers = [expanded(shop, "dropped")[r] for r in rowsets]

    names = [[k.split("_", 1)[1] for p in a.places for k in p.keys or ()] for a in answers]
    assert names == [
        ["0.dat", "0.idx", "delete_bitmap.db"],
        ["0.dat", "delete_bitmap.db"],
        ["0.dat", "0.idx", "delete_bitmap.db"],
    ]
    assert [a.lacking for a in answers] == [Reason.SCHEMA_MISSING, Reason.SCHEMA_MISSING, None]
    assert shop.catalog_owner.resolvable("shop", shop.marked("dropped")) == set()


def test_a_restored_schema_frees_its_rowsets(shop: Shop) -> None:
    tablets = shop.table(i=SCHEMAS["v1"], j=SCHEMAS["v1"])
    rowsets = shop.loaded(tablets)
    for rowset in rowsets:
        shop.catalog.drop_rowset(rowset)
    with shop.db.write() as c:
        c.execute(delete(shop.t.schemas).where(shop.t.schemas.c.index_id == "i"))

    mended = shop.catalog_owner.resolvable("shop", shop.marked("dropped"))

    assert {shop.record(shop.t.rowsets, r.id).index_id for r in mended} == {"j"}


def test_a_second_expansion_lists_the_remaining_files(shop: Shop) -> None:
    tablets = shop.table()
    [rowset] = shop.loaded(tablets)
    shop.catalog.drop_rowset(rowset)
    second_passes = [m._replace(in_second_pass=True) for m in shop.marked("dropped")]

    [answer] = shop.catalog_owner.expand("shop", second_passes, no_heartbeat).values()

    assert [(p.prefix, p.keys) for p in answer.places] == [(f"data/{tablets[0]}/{rowset}_", None)]


@pytest.mark.parametrize("wrong", [{"format": "V3"}, {"tablet_id": "a_b"}])
def test_an_unreadable_rowset_record_is_a_problem_not_a_crash(shop: Shop, wrong: dict[str, str]) -> None:
    [rowset] = shop.loaded(shop.table())
    shop.catalog.drop_rowset(rowset)
    shop.change(shop.t.rowsets, rowset, **wrong)

    answer = expanded(shop, "dropped")[rowset]

    assert answer.places == ()
    assert answer.problem is not None
    assert answer.problem[0] is Reason.UNEXPANDED


def test_a_rowset_without_a_record_is_a_problem(shop: Shop) -> None:
    [rowset] = shop.loaded(shop.table())
    shop.catalog.drop_rowset(rowset)
    with shop.db.write() as c:
        c.execute(delete(shop.t.rowsets))

    answer = expanded(shop, "dropped")[rowset]

    assert answer.problem is not None
    assert answer.problem[0] is Reason.UNEXPANDED


def test_a_tablet_is_in_every_vault_of_its_rowsets_and_marks(shop: Shop) -> None:
    full, empty = shop.table(tablets=2)
    for name in ("two", "three", "four"):
        shop.local(shop.roots["disk"].parent / name, name)
    shop.loaded([full])
    shop.prepared([full], "two")
    marked = shop.loaded([full], "three") + shop.loaded([full], "four")
    for rowset in marked:
        shop.catalog.drop_rowset(rowset)
    with shop.db.write() as c:  # its record is lost, its mark no_heartbeat names the vault
        c.execute(delete(shop.t.rowsets).where(shop.t.rowsets.c.id == marked[1]))
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
    for table in (shop.db.t.mark, shop.t.tablets):
        column = table.c.parent_id if "parent_id" in table.c else table.c.table_id
        with shop.db.write() as c:
            c.execute(delete(table).where(column == "u"))

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
