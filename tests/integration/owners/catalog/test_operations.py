"""Each catalog operation is one transaction that marks its garbage through the contract."""

import pytest

from sexton import contract
from sexton.kernel.errors import BadInput
from sexton.marks.model import Ref
from sexton.owners.catalog.model import (
    AlreadyDropped,
    LabelTaken,
    NewTable,
    RecordNotFound,
    Schema,
    Written,
    WrongState,
)
from sexton.owners.catalog.tables import create
from tests.integration.owners.catalog.shop import HOUR, Shop


def test_a_table_has_tablets_for_each_index_and_partition(shop: Shop) -> None:
    shop.catalog.create_table(
        NewTable(id="t", indexes={"base": Schema(), "rollup": Schema()}, partitions={"p1": 2, "p2": 3})
    )

    shop.catalog.add_partition("t", "p3", 1)
    shop.catalog.add_index("t", "late", Schema(), 4)

    counts = {p: len(shop.catalog.tablets(partition=p)) for p in ("p1", "p2", "p3")}
    assert counts == {"p1": 2 * 2 + 4, "p2": 2 * 3 + 4, "p3": 2 * 1 + 4}
    assert len(shop.catalog.tablets(index="late", partition="p2")) == 4
    tablets = shop.catalog.tablets()
    create(shop.db)  # the catalog's own tables, which exist
    assert shop.catalog.tablets() == tablets


def test_a_load_is_marked_until_its_commit(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    txn, rowsets = shop.written(tablets)
    before = {(m.id, m.prefix) for m in shop.marked("prepared")}

    shop.catalog.commit(txn)

    assert before == {(r, f"data/{shop.record(shop.t.rowsets, r).tablet_id}/{r}_") for r in rowsets}
    assert shop.refs() == {Ref("txn_label", txn)}
    assert shop.states(rowsets) == {"visible"}
    assert shop.record(shop.t.txns, txn).status == "VISIBLE"


def test_each_commit_takes_the_next_version_of_its_partition(shop: Shop) -> None:
    one, other = shop.table(partitions=["p1", "p2"])

    rowsets = [*shop.loaded([one]), *shop.loaded([one, other]), *shop.loaded([other])]

    versions = [shop.record(shop.t.rowsets, r).first_version for r in rowsets]
    assert versions == [2, 3, 2, 3]


def test_a_rowset_is_written_once_and_before_its_commit(shop: Shop) -> None:
    tablets = shop.table()
    txn, [rowset] = shop.prepared(tablets), shop.loaded(tablets)

    with pytest.raises(WrongState, match="not written yet"):
        shop.catalog.commit(txn)
    with pytest.raises(WrongState, match=rowset):
        shop.catalog.write_rowset(Written(rowset=rowset, segments=9))

    assert shop.record(shop.t.txns, txn).status == "PREPARED"
    assert len(shop.marked("prepared")) == 1
    assert shop.record(shop.t.rowsets, rowset).segments == 1
    assert shop.objects() == set(shop.keys(rowset))


def test_a_commit_of_a_collected_rowset_changes_nothing(shop: Shop) -> None:
    txn, [rowset, other] = shop.written(shop.table(tablets=2))
    shop.fence(rowset)

    with pytest.raises(contract.Collected, match=f"SX001 .*{rowset} is fenced"):
        shop.catalog.commit(txn)

    assert shop.states([rowset, other]) == {"tmp"}
    assert shop.record(shop.t.txns, txn).status == "PREPARED"
    assert {m.id for m in shop.marked("prepared")} == {rowset, other}


def test_a_part_of_a_load_is_committed_only_with_it(shop: Shop) -> None:
    tablets = shop.table()
    txn, [rowset] = shop.written(tablets)
    part = shop.catalog.begin_sub(txn)
    [output] = shop.catalog.prepare_rowsets(part, tablets, "disk")
    shop.write(output)

    with pytest.raises(WrongState, match=f"part of {txn}"):
        shop.catalog.commit(part)
    shop.catalog.commit(txn)

    assert [shop.record(shop.t.rowsets, r).last_version for r in (rowset, output.rowset)] == [2, 3]
    assert shop.record(shop.t.txns, part).status == "VISIBLE"


def test_a_label_is_valid_and_free_again_only_after_an_abort(shop: Shop) -> None:
    first = shop.catalog.begin("daily", HOUR)
    with pytest.raises(LabelTaken, match="daily"):
        shop.catalog.begin("daily", HOUR)
    shop.catalog.abort(first)
    second = shop.catalog.begin("daily", HOUR)

    shop.catalog.commit(second)

    with pytest.raises(LabelTaken, match="daily"):
        shop.catalog.begin("daily", HOUR)
    assert shop.number(shop.t.labels, label="daily") == 2
    for label, seconds in [("a", 0), ("a", -1), ("a", 10**12), ("a\0", 60)]:
        with pytest.raises(BadInput):
            shop.catalog.begin(label, seconds)
        assert shop.number(shop.t.txns) == 2


def test_an_ended_load_cannot_be_committed_or_written(shop: Shop) -> None:
    tablets = shop.table()
    (txn, aborted), (committed, _) = shop.written(tablets), shop.written(tablets)
    part = shop.catalog.begin_sub(committed)
    for _ in range(2):
        shop.catalog.abort(txn)
    shop.change(shop.t.txns, committed, status="COMMITTED")

    with pytest.raises(WrongState, match="is ABORTED"):
        shop.catalog.commit(txn)
    for load, status in ((txn, "ABORTED"), (part, "COMMITTED")):
        with pytest.raises(WrongState, match=f"is {status}"):
            shop.catalog.prepare_rowsets(load, tablets, "disk")

    assert shop.states(aborted) == {"tmp"}
    assert len(shop.marked("prepared")) == 2
    assert {r.kind for r in shop.refs()} == {"txn_label", "prepared"}


def test_a_dropped_table_cannot_be_loaded(shop: Shop) -> None:
    shop.table(partitions=["kept", "gone"])
    running, _ = shop.written(shop.catalog.tablets(partition="gone"))
    shop.catalog.drop_partition("gone")

    with pytest.raises(AlreadyDropped, match="gone"):
        shop.catalog.commit(running)
    with pytest.raises(AlreadyDropped, match="gone"):
        shop.prepared(shop.catalog.tablets(partition="gone"))

    assert shop.states(shop.loaded(shop.catalog.tablets(partition="kept"))) == {"visible"}


def test_a_compaction_marks_its_inputs_in_the_same_commit(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    before = shop.refs()

    output = shop.compacted(tablet, inputs)

    row = shop.record(shop.t.rowsets, output)
    assert (row.state, row.first_version, row.last_version) == ("visible", 2, 3)
    assert shop.refs() - before == {Ref("compacted", i) for i in inputs}
    assert {(m.vault, m.bytes) for m in shop.marked("compacted")} == {("disk", 10)}
    assert shop.number(shop.t.jobs) == 0


def test_r52_inputs_of_an_unfinished_compaction_are_not_marked(shop: Shop) -> None:
    tablet, inputs = shop.filled(3)
    unwritten = shop.catalog.start_compaction(tablet, inputs, "disk")

    with pytest.raises(WrongState, match="not written yet"):
        shop.catalog.finish_compaction(unwritten.id)

    assert shop.states(inputs) == {"visible"}
    assert shop.marked("compacted") == []
    assert {m.id for m in shop.marked("prepared")} == {unwritten.output.rowset}


def test_a_second_compaction_of_the_same_rowsets_is_refused(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    late = shop.catalog.start_compaction(tablet, inputs, "disk")
    shop.write(late.output)
    first = shop.compacted(tablet, inputs)

    with pytest.raises(WrongState, match="is compacted"):
        shop.catalog.finish_compaction(late.id)

    assert shop.states([first]) == {"visible"}
    assert {m.id for m in shop.marked("prepared")} == {late.output.rowset}


def test_a_compaction_needs_visible_rowsets_of_its_tablet(shop: Shop) -> None:
    one, other = shop.table(tablets=2)
    mine, others = shop.loaded([one]), shop.loaded([other])
    _, unseen = shop.written([one])

    for wrong in ([], others, mine + others, unseen):
        with pytest.raises(WrongState):
            shop.catalog.start_compaction(one, wrong, "disk")

    assert shop.number(shop.t.jobs) == 0


def test_a_dropped_rowset_is_marked_once(shop: Shop) -> None:
    [rowset] = shop.loaded(shop.table())

    shop.catalog.drop_rowset(rowset)

    with pytest.raises(WrongState, match="is dropped"):
        shop.catalog.drop_rowset(rowset)
    assert [m.id for m in shop.marked("dropped")] == [rowset]


def test_statistics_count_visible_rowsets(shop: Shop) -> None:
    [tablet] = shop.table()
    stats = shop.t.stats
    inputs = shop.loaded([tablet], segments=3) + shop.loaded([tablet])
    before = shop.number(stats, tablet_id=tablet, rowsets=2, bytes=40)

    shop.compacted(tablet, inputs)

    assert (before, shop.number(stats, tablet_id=tablet, rowsets=1, bytes=10)) == (1, 1)


def test_an_unknown_object_is_named_in_the_error(shop: Shop) -> None:
    asked = {
        "nope": lambda: shop.catalog.drop_table("nope"),
        "nop1": lambda: shop.catalog.drop_partition("nop1"),
        "nop2": lambda: shop.catalog.commit("nop2"),
        "nop3": lambda: shop.catalog.finish_compaction("nop3"),
        "nop4": lambda: shop.catalog.drop_rowset("nop4"),
        "nop5": lambda: shop.prepared(["nop5"]),
        "nop6": lambda: shop.catalog.add_partition("nop6", "p", 1),
    }

    for name, ask in asked.items():
        with pytest.raises(RecordNotFound, match=name):
            ask()

    assert shop.refs() == set()
