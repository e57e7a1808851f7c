"""The catalog's fence aborts the owner of a prepared mark, and returns which marks may be deleted."""

from collections import Counter

import pytest
from sqlalchemy import delete

from sexton.marks.model import Fenced, Ref
from sexton.owners.catalog.barrier import FENCE_BATCH
from tests.integration.owners.catalog.shop import Shop, no_heartbeat, recorded_statements


def fence(shop: Shop, *ids: str) -> dict[str, tuple[Fenced, str]]:
    answers = shop.catalog_owner.fence("shop", 1, shop.fence(*ids), no_heartbeat)
    return {ref.id: answer for ref, answer in answers.items()}


def test_the_fence_aborts_a_running_load_and_marks_its_label(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    txn, other = shop.prepared(tablets), shop.prepared(tablets)
    mine = [m.id for m in shop.marked("prepared") if shop.row("prepared", m.id).owner_txn == f"txn.{txn}"]

    answers = fence(shop, *mine)

    assert {a for a, _ in answers.values()} == {Fenced.FENCED}
    assert set(answers) == set(mine)
    assert [shop.record(shop.t.txns, t).status for t in (txn, other)] == ["ABORTED", "PREPARED"]
    assert Ref("txn_label", txn) in shop.refs()
    assert shop.catalog.begin(shop.record(shop.t.txns, txn).label, 60)


def test_r04_a_parts_load_is_aborted_with_its_other_parts(shop: Shop) -> None:
    tablets = shop.table()
    txn = shop.catalog.begin("whole", 60)
    parts = [shop.catalog.begin_sub(txn) for _ in range(2)]
    [output] = shop.catalog.prepare_rowsets(parts[0], tablets, "disk")

    answers = fence(shop, output.rowset)

    assert answers[output.rowset][0] is Fenced.FENCED
    assert {shop.record(shop.t.txns, t).status for t in (txn, *parts)} == {"ABORTED"}


def test_a_part_of_an_unknown_load_is_aborted_alone(shop: Shop) -> None:
    tablets = shop.table()
    txn = shop.catalog.begin("whole", 60)
    part = shop.catalog.begin_sub(txn)
    [output] = shop.catalog.prepare_rowsets(part, tablets, "disk")
    with shop.db.write() as c:
        c.execute(delete(shop.t.txns).where(shop.t.txns.c.id == txn))

    answers = fence(shop, output.rowset)

    assert answers[output.rowset][0] is Fenced.FENCED
    assert shop.record(shop.t.txns, part).status == "ABORTED"


def test_a_part_of_a_committed_load_is_not_fenced(shop: Shop) -> None:
    tablets = shop.table()
    txn = shop.catalog.begin("whole", 60)
    part = shop.catalog.begin_sub(txn)
    [output] = shop.catalog.prepare_rowsets(part, tablets, "disk")
    shop.change(shop.t.txns, txn, status="COMMITTED")

    answers = fence(shop, output.rowset)

    assert answers[output.rowset][0] is Fenced.IN_USE
    assert [shop.record(shop.t.txns, t).status for t in (txn, part)] == ["COMMITTED", "PREPARED"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        ("PRECOMMITTED", Fenced.IN_USE),
        ("COMMITTED", Fenced.IN_USE),
        ("VISIBLE", Fenced.IN_USE),
        ("ABORTED", Fenced.FENCED),
        ("PREPRAED", Fenced.UNKNOWN),
        ("", Fenced.UNKNOWN),
    ],
)
def test_the_fence_answers_by_status_and_does_not_change_it(shop: Shop, status: str, answer: Fenced) -> None:
    txn = shop.prepared(shop.table())
    shop.change(shop.t.txns, txn, status=status)

    [(said, why)] = fence(shop).values()

    assert said is answer
    assert status in why or status == "ABORTED"
    assert shop.record(shop.t.txns, txn).status == status
    mended = shop.catalog_owner.resolvable("shop", shop.marked("prepared"))
    assert len(mended) == (0 if answer is Fenced.UNKNOWN else 1)


def test_a_prepared_rowset_of_an_unknown_load_is_fenced(shop: Shop) -> None:
    shop.prepared(shop.table())
    with shop.db.write() as c:
        c.execute(delete(shop.t.txns))

    [(said, _)] = fence(shop).values()

    assert said is Fenced.FENCED


def test_a_mark_of_an_unknown_owner_is_kept(shop: Shop) -> None:
    shop.prepared(shop.table())
    shop.sql("UPDATE {}mark SET owner_txn = 'somebody'")

    [(said, why)] = fence(shop).values()

    assert said is Fenced.UNKNOWN
    assert "'somebody'" in why


def test_r05_only_the_owning_compaction_is_removed(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = shop.loaded([tablet]) + shop.loaded([tablet])
    mine = shop.catalog.start_compaction(tablet, inputs[:1], "disk")
    other = shop.catalog.start_compaction(tablet, inputs[1:], "disk")

    answers = fence(shop, mine.output.rowset)

    assert answers[mine.output.rowset][0] is Fenced.FENCED
    assert (shop.record(shop.t.jobs, mine.id), shop.record(shop.t.jobs, other.id).id) == (None, other.id)


def test_r08_a_mark_committed_before_the_fence_is_not_fenced(shop: Shop) -> None:
    txn, [rowset] = shop.written(shop.table())
    marks = shop.marked("prepared")
    shop.catalog.commit(txn)

    answers = shop.catalog_owner.fence("shop", 1, marks, no_heartbeat)

    assert answers == {}
    assert shop.record(shop.t.txns, txn).status == "VISIBLE"
    assert shop.states([rowset]) == {"visible"}


@pytest.mark.slow
def test_r11_257_rowsets_are_fenced_in_two_batches(shop: Shop) -> None:
    for tablet in shop.table(tablets=FENCE_BATCH + 1):
        shop.prepared([tablet])
    beats: list[None] = []

    with recorded_statements(shop) as statements:
        answers = shop.catalog_owner.fence("shop", 1, shop.fence(), lambda: beats.append(None))

    aborts = [s for s in statements if s.startswith("UPDATE") and "txns" in s and "RETURNING" in s]
    assert (len(beats), len(aborts)) == (2, 2)
    assert Counter(a for a, _ in answers.values()) == {Fenced.FENCED: FENCE_BATCH + 1}
    assert shop.number(shop.t.txns, status="ABORTED") == FENCE_BATCH + 1
