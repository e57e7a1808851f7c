"""The owner of a prepared rowset is aborted before the rowset's files are deleted, also by two shards at once."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import update

from sexton import contract
from sexton.kernel.crash_points import installed
from sexton.marks.model import DueMark, Expansion, Fenced, Ref
from sexton.owners.catalog.model import TxnStatus, rowset_prefix
from sexton.owners.catalog.rowsets import FENCE_BATCH
from sexton.owners.port import Heartbeat
from tests.integration.owners.catalog.shop import HOUR, PREPARED, Shop, no_heartbeat, recorded_statements
from tests.servers.fault_proxy import FaultProxy
from tests.support.crashes import at_point
from tests.support.kept import kept_texts

FAR = 10**13
"""A time-out in milliseconds that never comes, so that nothing but the fence aborts."""


def wait(shop: Shop) -> None:
    """Pass the time after which every prepared rowset of this file is due."""
    shop.later(HOUR + PREPARED)


def test_r03_a_load_is_aborted_before_its_files_are_deleted(shop: Shop) -> None:
    txn, [rowset] = shop.written(shop.table(), bitmap=True)
    shop.change(shop.t.txns, txn, timeout_at=FAR)  # not timed out: the fence must do it
    wait(shop)
    seen: list[str] = []

    with installed(at_point("files.deleted", lambda: seen.append(shop.record(shop.t.txns, txn).status))):
        shop.round()
    shop.second_pass()

    assert seen[0] == "ABORTED"
    assert shop.objects() == set()
    assert shop.refs() == {Ref("txn_label", txn)}
    assert shop.record(shop.t.rowsets, rowset) is None
    with pytest.raises(contract.Collected, match=f"SX001 .*{rowset} gone"):
        shop.catalog.commit(txn, [rowset])
    assert shop.record(shop.t.txns, txn).status == "ABORTED"


def test_r03_a_commit_between_fence_and_delete_is_refused(shop: Shop) -> None:
    txn, [rowset] = shop.written(shop.table())
    wait(shop)
    refused: list[str] = []

    def commit_late() -> None:
        with pytest.raises(contract.Collected, match="SX001") as e:
            shop.catalog.commit(txn)
        refused.append(str(e.value))

    with installed(at_point("owner.fenced", commit_late)):
        shop.round()

    assert len(refused) == 1
    assert "is fenced" in refused[0]
    assert shop.states([rowset]) == {"tmp"}
    assert shop.record(shop.t.txns, txn).status == "ABORTED"


def test_r04_the_load_above_a_part_is_aborted_before_the_delete(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    txn = shop.catalog.begin("whole", HOUR)
    written, prepared = (shop.catalog.begin_sub(txn) for _ in range(2))
    shop.write(*shop.catalog.prepare_rowsets(written, tablets, "disk"))
    [output, *_] = shop.catalog.prepare_rowsets(prepared, tablets, "disk")
    shop.put("disk", f"{output.prefix}0.dat")
    shop.change(shop.t.txns, txn, timeout_at=FAR)
    wait(shop)
    seen: list[set[str]] = []

    def look() -> None:
        seen.append({shop.record(shop.t.txns, t).status for t in (txn, written, prepared)})

    with installed(at_point("files.deleted", look)):
        shop.round()
    shop.second_pass()

    assert seen[0] == {"ABORTED"}
    assert shop.objects() == set()
    assert shop.refs() == {Ref("txn_label", txn)}


def test_r05_only_the_compaction_that_wrote_it_is_removed(shop: Shop) -> None:
    tablet, inputs = shop.filled(2)
    kept = set(shop.keys(*inputs))
    mine = shop.catalog.start_compaction(tablet, inputs[:1], "disk")
    other = shop.catalog.start_compaction(tablet, inputs[1:], "disk", expiry_seconds=100 * PREPARED)
    shop.write(mine.output, other.output)
    kept |= set(shop.keys(other.output.rowset))
    wait(shop)

    shop.round()
    shop.second_pass()

    assert shop.objects() == kept
    assert shop.number(shop.t.jobs) == 1
    shop.catalog.finish_compaction(other.id)
    assert shop.states([other.output.rowset]) == {"visible"}


def test_r06_files_of_a_corrupt_owner_wait_for_its_repair(shop: Shop) -> None:
    txn, [rowset] = shop.written(shop.table())
    shop.change(shop.t.txns, txn, status="PRE\N{REPLACEMENT CHARACTER}ARED")
    wait(shop)

    kept = [shop.round(), shop.round()]
    aside = shop.row("prepared", rowset)
    files = shop.objects()
    shop.change(shop.t.txns, txn, status="PREPARED", timeout_at=FAR)
    shop.round()
    shop.second_pass()

    assert [r.deleted for r in kept] == [0, 0]
    assert (aside.state, aside.quarantined_reason) == ("MARKED", "OWNER_CORRUPT")
    assert len(files) == 1
    assert shop.objects() == set()
    assert shop.record(shop.t.txns, txn).status == "ABORTED"
    assert shop.refs() == {Ref("txn_label", txn)}


@pytest.mark.slow
def test_r07_a_failed_delete_keeps_the_record(cold_shop: Shop, proxy: FaultProxy) -> None:
    txn, [rowset] = cold_shop.written(cold_shop.table(), "cold")
    [key] = cold_shop.keys(rowset)
    wait(cold_shop)
    proxy.fail_keys({key: "AccessDenied"}, times=1)

    failed = cold_shop.round()
    kept = (cold_shop.row("prepared", rowset).state, cold_shop.states([rowset]), cold_shop.objects("cold"))
    cold_shop.round()
    cold_shop.second_pass()

    assert (failed.deleted, failed.failed) == (0, 1)
    assert kept == ("CLAIMED", {"tmp"}, {key})
    assert cold_shop.record(cold_shop.t.txns, txn).status == "ABORTED"
    assert cold_shop.objects("cold") == set()
    assert (cold_shop.row("prepared", rowset), cold_shop.record(cold_shop.t.rowsets, rowset)) == (None, None)


def test_r08_a_rowset_committed_between_scan_and_claim_stays(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    txn, [rowset] = shop.written(shop.table())
    shop.change(shop.t.txns, txn, timeout_at=FAR)
    wait(shop)
    expand = shop.catalog_owner.expand

    def commit_meanwhile(instance: str, marks: Sequence[DueMark], heartbeat: Heartbeat) -> Mapping[Ref, Expansion]:
        shop.catalog.commit(txn)
        return expand(instance, marks, heartbeat)

    monkeypatch.setattr(shop.catalog_owner, "expand", commit_meanwhile)
    report = shop.round()

    assert (report.scanned, report.deleted, report.claimed) == (1, 0, 0)
    assert shop.refs() == {Ref("txn_label", txn)}
    assert shop.record(shop.t.txns, txn).status == "VISIBLE"
    assert shop.objects() == set(shop.keys(rowset))


def test_r09_rowsets_of_a_committed_load_are_kept_and_reported(shop: Shop) -> None:
    tablets, statuses = shop.table(), ("PRECOMMITTED", "COMMITTED", "VISIBLE")
    loads = {status: shop.written(tablets) for status in statuses}
    for status, (txn, _) in loads.items():
        shop.change(shop.t.txns, txn, status=status)
    objects = shop.objects()
    wait(shop)

    report = shop.round()

    assert (report.deleted, report.claimed) == (0, 0)
    assert sum(n for who, n in kept_texts(report).items() if who.startswith("in use")) == len(statuses)
    for status, (txn, [rowset]) in loads.items():
        assert shop.row("prepared", rowset).state == "MARKED"
        assert shop.record(shop.t.txns, txn).status == status
    assert shop.objects() == objects


def test_r10_rowsets_of_an_aborted_or_unknown_load_are_deleted(shop: Shop) -> None:
    tablets = shop.table()
    aborted, unknown = shop.written(tablets)[0], shop.written(tablets)[0]
    shop.catalog.abort(aborted)
    shop.lose(shop.t.txns, id=unknown)
    wait(shop)

    report = shop.round()
    shop.second_pass()

    assert report.deleted == 2
    assert shop.objects() == set()
    assert shop.number(shop.t.rowsets) == 0
    assert {r.kind for r in shop.refs()} <= {"txn_label"}


@pytest.mark.slow
def test_r11_257_rowsets_are_deleted_after_two_abort_batches(shop: Shop) -> None:
    for tablet in shop.table(tablets=FENCE_BATCH + 1):
        shop.written([tablet])
    wait(shop)

    with recorded_statements(shop) as statements:
        report = shop.round()
    shop.second_pass()

    assert sum(s.startswith("UPDATE") and "txns" in s and "RETURNING" in s for s in statements) == 2
    assert report.deleted == FENCE_BATCH + 1
    assert shop.number(shop.t.txns, status="ABORTED") == FENCE_BATCH + 1
    assert shop.number(shop.t.rowsets) == 0
    assert shop.objects() == set()
    assert {r.kind for r in shop.refs()} == {"txn_label"}


@pytest.mark.soak
def test_r12_loads_with_many_rowsets_leave_no_files(shop: Shop) -> None:
    load_and_leave(shop.prove_by_clock(), "disk", 50, 1_000)


@pytest.mark.slow
@pytest.mark.parametrize(("loads", "rowsets"), [(5, 40), pytest.param(5, 1_000, marks=pytest.mark.soak)])
def test_r12_loads_with_many_rowsets_leave_no_files_in_s3(s3_shop: Shop, loads: int, rowsets: int) -> None:
    load_and_leave(s3_shop, "cold", loads, rowsets)


def load_and_leave(shop: Shop, vault: str, loads: int, rowsets: int) -> None:
    tablets = shop.table(tablets=rowsets)
    for _ in range(loads):
        shop.written(tablets, vault)
    wait(shop)
    before = len(shop.objects(vault))

    report = shop.round()
    shop.second_pass()

    assert (before, report.deleted) == (rowsets * loads, rowsets * loads)
    assert shop.objects(vault) == set()
    assert shop.number(shop.t.rowsets) == 0
    assert {r.kind for r in shop.refs()} == {"txn_label"}


def test_r13_an_unrecorded_or_late_segment_is_deleted(shop: Shop) -> None:
    [tablet] = shop.table()
    _, [rowset] = shop.written([tablet], segments=2)
    [near] = shop.loaded([tablet])
    shop.put("disk", f"{rowset_prefix(tablet, rowset)}2.dat")
    wait(shop)

    report = shop.round()
    shop.put("disk", f"{rowset_prefix(tablet, rowset)}3.dat")  # an upload that ends late
    shop.second_pass()
    assert (report.deleted, shop.objects()) == (3, set(shop.keys(near)))
    shop.second_pass()  # it found an object: it looks once more

    assert shop.number(shop.t.rowsets) == 1


def test_a_running_load_in_another_vault_is_left_alone(shop: Shop, tmp_path: Path) -> None:
    shop.local(tmp_path / "two", "two")
    tablets = shop.table()
    late, _ = shop.written(tablets)
    wait(shop)
    running, _ = shop.written(tablets, "two")

    shop.round()

    assert [shop.record(shop.t.txns, t).status for t in (late, running)] == ["ABORTED", "PREPARED"]
    assert len(shop.objects("two")) == 1
    assert shop.catalog_owner.live("shop", shop.marked("prepared"), no_heartbeat) == {}


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


def test_a_part_is_fenced_alone_unless_its_load_is_committed(shop: Shop) -> None:
    tablets, loads = shop.table(), dict[str, tuple[str, str, str]]()
    for label in ("unknown", "committed"):
        txn = shop.catalog.begin(label, 60)
        part = shop.catalog.begin_sub(txn)
        loads[label] = (txn, part, shop.catalog.prepare_rowsets(part, tablets, "disk")[0].rowset)
    (lost, part, rowset), (txn, other_part, other) = loads.values()
    shop.lose(shop.t.txns, id=lost)
    shop.change(shop.t.txns, txn, status="COMMITTED")

    answers = fence(shop, rowset, other)

    assert [answers[r][0] for r in (rowset, other)] == [Fenced.FENCED, Fenced.IN_USE]
    statuses = [shop.record(shop.t.txns, t).status for t in (part, txn, other_part)]
    assert statuses == ["ABORTED", "COMMITTED", "PREPARED"]


STATUSES = {
    "PRECOMMITTED": Fenced.IN_USE,
    "COMMITTED": Fenced.IN_USE,
    "VISIBLE": Fenced.IN_USE,
    "ABORTED": Fenced.FENCED,
    "PREPRAED": Fenced.UNKNOWN,
    "": Fenced.UNKNOWN,
}


def test_the_fence_answers_by_status_and_does_not_change_it(shop: Shop) -> None:
    tablets = shop.table()
    loads = {status: shop.written(tablets) for status in STATUSES}
    for status, (txn, _) in loads.items():
        shop.change(shop.t.txns, txn, status=status)

    answers = fence(shop)
    mended = shop.catalog_owner.resolvable("shop", shop.marked("prepared"))

    for status, (txn, [rowset]) in loads.items():
        answer, why = answers[rowset]
        assert answer is STATUSES[status]
        assert status in why or status == "ABORTED"
        assert shop.record(shop.t.txns, txn).status == status
        assert (Ref("prepared", rowset) in mended) == (answer is not Fenced.UNKNOWN)


def test_a_mark_of_an_unknown_owner_is_kept(shop: Shop) -> None:
    shop.prepared(shop.table())
    shop.sql("UPDATE {}mark SET owner_txn = 'somebody'")

    [(said, why)] = fence(shop).values()

    assert said is Fenced.UNKNOWN
    assert "'somebody'" in why


@pytest.mark.slow
def test_shards_abort_the_same_loads_without_a_deadlock(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    for n in range(120):
        shop.prepared(tablets, label=f"l{n}")
    prepared = [mark for mark in shop.rows("mark") if mark.kind == "prepared"]
    of = [[Ref("prepared", mark.id) for mark in prepared if mark.parent_id == t] for t in tablets]
    of[1].reverse()
    shop.update("mark", state="FENCED")
    for _ in range(15):
        with shop.db.write() as c:
            c.execute(update(shop.t.txns).values(status=TxnStatus.PREPARED))
        with ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(shop.catalog_owner.fence, "shop", n, of[n], no_heartbeat) for n in (0, 1)]
            for call in calls:
                assert {answer for answer, _ in call.result().values()} == {"fenced"}
