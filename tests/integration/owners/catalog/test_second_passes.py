"""Second passes, paused workers and older attempts delete nothing that is kept, and remove no record of it."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest

from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.marks.model import LeaseLost, Reason, Ref, WriteToken
from sexton.operators.holds.model import Hold
from sexton.operators.registry.undelete import find_later_deletions, hold_on, hold_place
from sexton.owners.catalog.model import IndexFormat, Schema
from sexton.owners.port import Heartbeat, OwnerSilent, Verify
from sexton.protection.model import Invalid
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.model import AdoptOrder, RangeOrder
from sexton.recycle.pipeline.sql import quarantine
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.rounds.ledger import Ledger
from sexton.storage.port import VaultFault
from tests.integration.owners.catalog.shop import FAR_MS, GRACE, RETAINED, Shop
from tests.integration.protection.registrations import protect
from tests.integration.recycle.pipeline.attempts import adopt_order, replaced_worker, stuck_attempt
from tests.integration.recycle.pipeline.refusing import refused_round
from tests.support.crashes import Crash, crash_at
from tests.support.door import Door, door_at, held_call
from tests.support.kept import kept_texts
from tests.support.places import AuditList
from tests.support.rig import DAY
from tests.support.undeletes import what_deletes

WEEK = 7 * 86_400


def test_files_of_a_rowset_without_schema_are_not_safe(shop: Shop) -> None:
    [tablet] = shop.table(i=Schema(format=IndexFormat.V1, inverted=("7", "8")))
    [rowset] = shop.loaded([tablet], bitmap=True)
    before = shop.objects()
    shop.catalog.drop_rowset(rowset)
    [schema] = shop.lose(shop.t.schemas)
    shop.round(after=RETAINED)
    gone = before - shop.objects()
    assert shop.row("dropped", rowset).quarantined_reason == "SCHEMA_MISSING"
    assert gone

    for place in (f"data/{tablet}/", min(gone)):
        hold = hold_place(shop.holds, hold_on("shop", "disk", place))
        assert find_later_deletions(shop.db, hold) == {Ref("dropped", rowset)}
        shop.holds.release(hold.id)
    shop.add(shop.t.schemas, schema)  # the owner finds its schema again
    shop.round()
    shop.second_pass()
    assert shop.row("dropped", rowset) is None


@pytest.mark.parametrize("paused_before", ["record_finished", "forget"])
def test_an_older_attempt_removes_no_record_of_a_kept_mark(shop: Shop, paused_before: str) -> None:
    tablet, order = tablet_in_second_pass(shop)
    target = shop.stores.settlements if paused_before == "record_finished" else shop.owner
    with stuck_attempt(shop, order, held_call(target, paused_before)) as errors:
        shop.holds.place(Hold(instance="shop", scope="instance", reason="undelete"), DAY)
        shop.recycler.adopt(order, 2, lambda: None)
        records = shop.number(shop.t.rowsets), shop.number(shop.t.tablets)

    assert [type(e) for e in errors] == [LeaseLost]
    assert (shop.number(shop.t.rowsets), shop.number(shop.t.tablets)) == records
    # Kept with its records, or gone with them: never the one without the other.
    is_kept = paused_before == "record_finished"
    assert (shop.row("tablet", tablet) is not None, records[1]) == (is_kept, int(is_kept))


def test_a_mark_discarded_before_its_end_keeps_its_records(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    tablet, order = tablet_in_second_pass(shop)
    records = shop.number(shop.t.rowsets), shop.number(shop.t.tablets)
    real = shop.stores.settlements.record_finished

    def discard_first(token: WriteToken, refs: Sequence[Ref]) -> frozenset[Ref]:
        with monkeypatch.context() as patch:
            patch.setattr(quarantine, "may_be_deleting", lambda *_: False)
            shop.stores.quarantine.discard("shop", Ref("tablet", tablet), "undelete")
        return real(token, refs)

    monkeypatch.setattr(shop.stores.settlements, "record_finished", discard_first)
    shop.recycler.adopt(order, 1, lambda: None)

    assert shop.row("tablet", tablet) is None
    assert (shop.number(shop.t.rowsets), shop.number(shop.t.tablets)) == records


def test_a_mark_whose_owner_fails_can_be_discarded(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    tablet, order = tablet_in_second_pass(shop)

    def fail(*_: object) -> None:
        raise OwnerSilent("the catalog does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(shop.owner, "forget", fail)
        silent = shop.recycler.adopt(order, 1, lambda: None)
    assert set(kept_texts(silent)) == {"owner: the catalog does not answer"}
    assert shop.row("tablet", tablet).finished
    with pytest.raises(BadInput, match="are being deleted now"):
        shop.stores.quarantine.discard("shop", Ref("tablet", tablet), "undelete")
    shop.leases.free(order.lease)
    assert f"first give the mark up permanently: sexton quarantine discard shop tablet/{tablet}" in what_deletes(
        shop, f"data/{tablet}/"
    )

    shop.stores.quarantine.discard("shop", Ref("tablet", tablet), "undelete")
    assert what_deletes(shop, f"data/{tablet}/") == ""


def tablet_in_second_pass(shop: Shop) -> tuple[str, AdoptOrder]:
    """Drop a table and let the second pass of its tablet be due; return the tablet and the order of its pass."""
    tablet = shop.due_tablet()
    shop.round()
    assert shop.row("tablet", tablet).first_pass_at is not None
    shop.later(GRACE + 1)
    return tablet, adopt_order(shop)


def tablets_order(shop: Shop) -> RangeOrder:
    """Open a round and adopt; return the order of its range of tablets."""
    adopt = adopt_order(shop)
    shop.recycler.adopt(adopt, 1, lambda: None)
    return RangeOrder(
        round=adopt.round,
        lease=adopt.lease,
        number=0,
        kind="tablet",
        cutoff=FAR_MS,
        limit=1_000,
        upload_grace_seconds=GRACE,
    )


def test_an_older_round_marks_nothing_that_a_newer_one_keeps(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.due_tablet()
    objects = shop.objects()
    mark_due, door = shop.catalog_owner.mark_due, Door()

    def paused_after_heartbeat(instance: str, cutoffs: Mapping[str, int], heartbeat: Heartbeat, verify: Verify) -> None:
        def beat() -> None:
            heartbeat()  # the lease is valid
            if not door.reached.is_set():
                door.come()

        mark_due(instance, {"table": cutoffs["table"]}, beat, verify)

    monkeypatch.setattr(shop.catalog_owner, "mark_due", paused_after_heartbeat)
    with stuck_attempt(shop, adopt_order(shop, "r1"), nullcontext(door)):
        shop.later(61)  # the lease expired
        shop.retain(table=WEEK, index=WEEK, partition=WEEK)
        newer = shop.rounds.open("shop", "r2", None, shop.policy)
        shop.recycler.adopt(adopt_order(shop, "r2"), 1, lambda: None)
    plan, ledger = shop.plan(), Ledger()
    for kind in plan.kinds:
        shop.recycle(newer, plan, kind, ledger)

    assert shop.objects() == objects
    shop.catalog.undrop_table("t")


def test_a_held_tablet_with_an_absorbed_load_can_be_undeleted(shop: Shop) -> None:
    tablet, _ = shop.filled()
    shop.written([tablet])  # a load that is not committed: its mark is a child of the tablet
    prefix = f"data/{tablet}/"
    shop.drop("table", later=RETAINED)
    shop.round()
    assert shop.objects() == set()
    assert shop.row("tablet", tablet).first_pass_at is not None  # waits for its second pass
    assert shop.count("mark", kind="prepared", state="CLAIMED", absorbed=True) == 1
    shop.holds.place(Hold(instance="shop", scope="instance", reason="undelete"), WEEK)
    shop.round(after=3 * GRACE)

    assert what_deletes(shop, prefix) == ""


def test_an_older_attempt_removes_no_records_of_a_discarded_mark(shop: Shop) -> None:
    tablet, order = tablet_in_second_pass(shop)
    with stuck_attempt(shop, order, held_call(shop.catalog_owner, "forget")):
        shop.later(100)  # the lease expired, and 37 s have passed
        assert "first give the mark up permanently: sexton quarantine discard" in what_deletes(shop, f"data/{tablet}/")
        QuarantineStore(shop.db).discard("shop", Ref("tablet", tablet), "undelete")
        assert what_deletes(shop, f"data/{tablet}/") == ""

    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == (1, 1)


def test_records_stay_for_the_second_pass_of_the_newer_attempt(shop: Shop) -> None:
    tablet = shop.due_tablet()
    order = tablets_order(shop)
    with stuck_attempt(shop, order, door_at("audit.written", once=True)) as errors:
        shop.recycler.recycle(order, 2, lambda: None)
        before = shop.number(shop.t.tablets), shop.number(shop.t.rowsets)

    assert shop.row("tablet", tablet).first_pass_at is not None
    assert (shop.number(shop.t.tablets), shop.number(shop.t.rowsets)) == before
    assert [type(e) for e in errors] == [LeaseLost]


def test_a_key_below_a_tablet_in_second_pass_is_refused(shop: Shop) -> None:
    tablet = shop.due_tablet()
    [key] = shop.objects()
    with replaced_worker(shop, tablets_order(shop)):
        assert shop.row("tablet", tablet).first_pass_at is not None
        shop.put("disk", key)  # an upload that began before the claim ends late: hence the second pass
        with pytest.raises(Invalid, match="being deleted"):
            protect(shop, "job", key)


@pytest.mark.parametrize("discarded_first", [True, False])
def test_a_tablet_is_settled_beside_a_damaged_list(shop: Shop, discarded_first: bool) -> None:
    tablet, refused = shop.table(tablets=2)
    rowset, other = shop.loaded([tablet, refused])
    [key] = shop.keys(other)
    shop.catalog.drop_rowset(rowset)
    shop.catalog.drop_table("t")
    shop.update("mark", {"id": rowset}, quarantined_reason="BAD_KEY")  # claimed with its tablet
    shop.later(RETAINED)
    refused_round(shop, key)
    shop.update("file_list", results=b"\x00")
    shop.round()
    reason = shop.row("tablet", refused).quarantined_reason
    store, damaged = QuarantineStore(shop.db), Ref("tablet", refused)

    if discarded_first:
        store.discard("shop", damaged, "its files stay")
    shop.second_pass()
    if not discarded_first:
        store.discard("shop", damaged, "its files stay")

    assert reason == Reason.FILES_UNREADABLE
    assert (shop.row("tablet", tablet), shop.row("dropped", rowset)) == (None, None)
    assert (shop.objects(), shop.count("file_list")) == ({key}, 0)
    protect(shop, "copy", key)


class AwayOnce(AuditList):
    """An audit whose place is away for a while."""

    away = False

    def write(self, rows: Sequence[AuditRow]) -> None:
        if self.away:
            raise VaultFault(rows[0].vault, "UNREACHABLE", "away")
        super().write(rows)


@pytest.mark.slow
def test_deletes_during_an_audit_fault_are_audited_later(database_url: str, tmp_path: Path) -> None:
    audit = AwayOnce()
    shop = Shop(database_url, audit=audit).register()
    shop.local(tmp_path / "disk")
    tablet = shop.due_tablet()
    shop.round()
    late = f"data/{tablet}/late_0.dat"
    shop.put("disk", late)
    shop.later(GRACE + 1)
    audit.away = True
    held = kept_texts(shop.round())
    audit.away = False
    shop.round()
    shop.later(GRACE + 1)  # it found an object: it looks once more
    shop.round()
    gone = shop.count("mark_history", kind="tablet")
    shop.close()

    assert held == {"vault disk: UNREACHABLE": 1, "waits for its children": 1}
    assert gone == 1
    assert late in {row.key for row in audit.rows}


@pytest.mark.slow
@pytest.mark.parametrize("point", ["outcomes.recorded", "audit.written"])
def test_deletes_of_a_crashed_second_pass_are_audited(shop: Shop, point: str) -> None:
    tablet = shop.due_tablet()
    shop.round()
    late = f"data/{tablet}/late_0.dat"
    shop.put("disk", late)
    shop.later(GRACE + 1)
    with installed(crash_at(point)), pytest.raises(Crash):
        shop.round()

    shop.round(after=120)

    assert shop.objects() == set()
    assert late in {row.key for row in shop.audit_list.rows}
