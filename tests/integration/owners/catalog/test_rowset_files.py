"""Rounds delete exactly the files of compacted and dropped rowsets, named by the schema they were written with."""

import pytest

from sexton import contract
from sexton.marks.model import Reason, Ref
from sexton.owners.catalog.model import IndexFormat, Schema
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.planning.policy import policy
from tests.integration.owners.catalog.shop import HOUR, PREPARED, RETAINED, Shop, recorded_statements
from tests.integration.recycle.pipeline.refusing import refused_round
from tests.support.kept import kept_texts
from tests.support.rig import GRACE, RETENTION

V1, V2 = IndexFormat.V1, IndexFormat.V2
INVERTED = ("1", "2", "3", "4")


@pytest.mark.slow
def test_r02_2000_rowsets_are_deleted_in_one_round(shop: Shop) -> None:
    each = 134
    schemas = {f"i{n}": Schema(format=(V1, V2)[n % 2], inverted=INVERTED[:n]) for n in range(5)}
    shop.prove_by_clock().table(tablets=1, **schemas)
    tablets = [shop.catalog.tablets(index=i)[0] for i in schemas]
    for tablet in tablets:
        shop.loaded([tablet] * each, bitmap=True)
        shop.compacted(tablet, [r.id for r in shop.records(shop.t.rowsets) if r.tablet_id == tablet])
        shop.catalog.drop_rowset(*shop.loaded([tablet] * each))
    shop.written([t for t in tablets for _ in range(each)], bitmap=True)
    live = shop.keys(*[r.id for r in shop.records(shop.t.rowsets) if r.state == "visible"])
    marked = {r for r in shop.refs() if r.kind != "txn_label"}
    shop.later(HOUR + PREPARED)

    with recorded_statements(shop) as statements:
        shop.round()
    left = shop.objects()
    shop.second_pass()

    assert len(marked) == 3 * 5 * each >= 2_000
    assert left == set(live)
    assert {r.kind for r in shop.refs()} <= {"txn_label"}
    assert shop.number(shop.t.rowsets) == shop.number(shop.t.rowsets, state="visible") == 5
    # All (index, version) of a chunk by one statement, and a chunk is of one kind.
    assert sum("schemas" in s for s in statements) == 2


def test_r19_a_record_without_schema_waits_after_its_named_files(shop: Shop) -> None:
    [tablet] = shop.table(i=Schema(format=V1, inverted=("7", "8")))
    old, new = shop.loaded([tablet], bitmap=True) + shop.loaded([tablet], format=V2)
    index_files = {k for k in shop.keys(old) if k.endswith(".idx")}
    shop.catalog.drop_rowset(old, new)
    [schema] = shop.lose(shop.t.schemas)

    first = shop.round(after=RETAINED)
    kept, aside = shop.objects(), shop.row("dropped", old)
    again = shop.round()
    shop.add(shop.t.schemas, schema)
    shop.round()
    shop.second_pass()

    assert len(index_files) == 2
    assert (kept, aside.state, aside.quarantined_reason) == (index_files, "CLAIMED", Reason.SCHEMA_MISSING)
    assert (first.deleted, again.deleted) == (4, 0)
    assert shop.objects() == set()
    assert {r.kind for r in shop.refs()} == {"txn_label"}
    assert shop.number(shop.t.rowsets) == 0


@pytest.mark.parametrize("reason", [Reason.DELETE_FAILED, Reason.FILES_UNREADABLE])
def test_a_retry_keeps_records_of_files_without_schema(shop: Shop, reason: Reason) -> None:
    [rowset] = shop.loaded(shop.table(i=Schema(format=V1, inverted=("7",))))
    [data, index] = sorted(shop.keys(rowset))
    shop.catalog.drop_rowset(rowset)
    shop.lose(shop.t.schemas)
    shop.later(RETAINED)
    refused_round(shop, data)
    shop.update("mark", {"id": rowset}, quarantined_reason=reason)

    QuarantineStore(shop.db).retry("shop", reason=reason)
    shop.round()

    assert shop.objects() == {index}
    assert shop.row("dropped", rowset).quarantined_reason == Reason.SCHEMA_MISSING


@pytest.mark.slow
def test_a_rowset_without_schema_is_deleted_with_its_table(shop: Shop) -> None:
    [tablet] = shop.table(i=Schema(format=V1, inverted=("7",)))
    [aside] = shop.loaded([tablet])
    shop.loaded([tablet])
    shop.catalog.drop_rowset(aside)
    shop.lose(shop.t.schemas)
    shop.round(after=RETAINED)
    reason = shop.row("dropped", aside).quarantined_reason
    shop.drop("table", later=RETAINED)

    for _ in range(3):
        shop.second_pass()

    assert reason == Reason.SCHEMA_MISSING
    assert shop.objects() == set()
    assert {r.kind for r in shop.refs()} == {"txn_label"}
    assert shop.number(shop.t.rowsets) == shop.number(shop.t.tables) == 0


def test_r20_the_files_of_a_rowset_are_named_by_its_own_format(shop: Shop) -> None:
    [tablet] = shop.table(i=Schema(format=V1, inverted=("7", "8")))
    own, schemas = shop.loaded([tablet], format=V2) + shop.loaded([tablet])
    shop.catalog.drop_rowset(own, schemas)
    before = shop.objects()

    report = shop.round(after=RETAINED)

    assert {f"data/{tablet}/{own}_0.idx", f"data/{tablet}/{schemas}_0_7.idx"} <= before
    assert (len(before), report.deleted, report.absent) == (5, 5, 0)
    assert shop.objects() == set()
    assert shop.number(shop.t.rowsets) == 0


def test_r52_compacted_marks_without_an_output_delete_nothing(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    # An owner's mistake: marked without an output.
    shop.mark("compacted", *(contract.NewMark(id=i, vault="disk", parent=("tablet", tablet)) for i in inputs))
    shop.change(shop.t.rowsets, inputs[0], state="compacted")

    report = shop.round(after=RETAINED)

    assert kept_texts(report) == {"live": 2}
    assert shop.objects() == set(shop.keys(*inputs))
    assert {Ref("compacted", i) for i in inputs} <= shop.refs()


def rowset_marks(shop: Shop) -> int:
    return shop.count("mark", kind="compacted") + shop.count("mark", kind="dropped")


def test_a_dropped_output_waits_for_its_held_inputs(shop: Shop) -> None:
    [tablet] = shop.table()
    kept, other = shop.loaded([tablet]) + shop.loaded([tablet])
    output, beside = shop.compacted(tablet, [kept, other]), shop.loaded([tablet])
    live, both = set(shop.keys(*beside)), set(shop.keys(kept, output))
    shop.catalog.drop_rowset(output)
    placed = shop.hold("compacted", kept)
    shop.later(RETAINED)

    reports = [shop.round(), shop.round()]

    assert [kept_texts(r) for r in reports] == [{f"hold {placed}": 1, "waits for its compaction inputs": 1}] * 2
    assert [r.removed for r in reports] == [1, 0]
    assert shop.objects() == live | both
    shop.holds.release(placed)
    report = shop.round()
    assert (report.removed, kept_texts(report)) == (2, {})
    assert shop.objects() == live
    assert (rowset_marks(shop), shop.number(shop.t.rowsets)) == (0, 1)


def test_an_output_waits_for_its_inputs_to_be_due(shop: Shop) -> None:
    [tablet] = shop.table()
    output = shop.compacted(tablet, shop.loaded([tablet]) + shop.loaded([tablet]))
    shop.catalog.drop_rowset(output)
    before = shop.objects()
    shop.policy = policy({**RETENTION, "dropped": 0, "compacted": RETAINED}, GRACE, owners=shop.policy.owners)

    early = shop.round(after=1)
    kept = shop.objects()
    shop.round(after=RETAINED)

    assert (early.removed, kept_texts(early)) == (0, {"waits for its compaction inputs": 1})
    assert kept == before
    assert shop.objects() == set()
    assert (rowset_marks(shop), shop.number(shop.t.rowsets)) == (0, 0)
