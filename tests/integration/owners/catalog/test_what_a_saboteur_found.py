"""Ways in which drops, holds and second looks went wrong once, found by somebody who looked for them."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sexton.kernel.crash_points import installed
from sexton.marks.model import Ref
from sexton.operators.holds.store import Hold
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from sexton.recycle.planning.policy import CATALOG, policy
from sexton.storage.port import VaultFault
from tests.integration.owners.catalog.shop import EVER, GRACE, HOUR, OWN, RETAINED, RETENTION, Shop
from tests.support.kept import kept_texts
from tests.support.rig import Told


class Crash(BaseException):
    """A process ends here."""


def crash_at(point: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == point:
            raise Crash

    return hook


def hold(shop: Shop, kind: str, id_: str) -> int:
    placed, _ = shop.holds.place(
        Hold(instance="shop", scope="mark", mark_kind=kind, mark_id=id_, reason="look first"), 7 * 86_400
    )
    return placed.id


class TestUndrop:
    def test_garbage_of_compactions_that_went_before_is_no_obstacle(self, shop: Shop) -> None:
        tablets = shop.table()
        shop.compacted(tablets[0], [shop.loaded(tablets)[0] for _ in range(2)])
        shop.later(2_000)
        shop.round()
        live = shop.objects()
        shop.catalog.drop_partition("t-p")
        hold(shop, "partition", "t-p")
        shop.later(RETAINED)
        shop.round()

        shop.catalog.undrop_partition("t-p")

        assert shop.count("mark_history", kind="compacted") == 2
        assert shop.objects() == live
        assert shop.count("mark", kind="tablet") == 0

    def test_a_partition_that_went_before_its_table_was_dropped_is_no_obstacle(self, shop: Shop) -> None:
        shop.loaded(shop.table())
        shop.catalog.drop_partition("t-p")
        shop.later(RETAINED)
        shop.round()
        shop.second_look()
        shop.round()
        assert shop.count("mark_history", kind="partition") == 1
        shop.catalog.drop_table("t")

        shop.catalog.undrop_table("t")

        assert shop.count("mark", kind="table") == 0

    def test_after_a_crash_at_the_fence_a_precommitted_load_still_commits(self, shop: Shop) -> None:
        txn, _ = shop.written(shop.table())
        ever = EVER if shop.db.dialect == "sqlite" else shop.now() + 864_000_000
        shop.change(shop.t.txns, txn, timeout_at=ever)
        shop.catalog.precommit(txn)
        shop.catalog.drop_table("t")
        shop.later(RETAINED)
        with installed(crash_at("owner.fenced")), pytest.raises(Crash):
            shop.round()
        shop.catalog.undrop_table("t")
        shop.later(120)
        shop.round()

        shop.catalog.commit(txn)

        assert shop.count("mark", kind="prepared") == 0


class TestHolds:
    def test_a_hold_on_a_live_table_keeps_a_rowset_of_it_that_was_dropped(self, shop: Shop) -> None:
        [row] = shop.loaded(shop.table())
        shop.catalog.drop_rowset(row)
        placed, before = hold(shop, "table", "t"), shop.objects()
        shop.later(RETAINED)

        report = shop.round()

        assert shop.objects() == before
        assert kept_texts(report) == {f"hold {placed}": 1}

    def test_a_hold_on_a_partition_keeps_it_in_a_table_that_was_dropped_and_expanded(self, shop: Shop) -> None:
        shop.loaded(shop.table())
        shop.catalog.drop_table("t")
        shop.due()
        hold(shop, "partition", "t-p")
        before = shop.objects()
        shop.later(RETAINED)

        shop.round()

        assert shop.objects() == before

    def test_a_load_below_a_table_that_a_hold_keeps_is_not_aborted(self, shop: Shop) -> None:
        tablets = shop.table()
        txn = shop.catalog.begin("long", 5 * 86_400)
        [output] = shop.catalog.prepare_rowsets(txn, tablets, "disk")
        shop.write(output)
        shop.catalog.drop_table("t")
        hold(shop, "table", "t")
        shop.later(RETAINED)
        shop.round()
        shop.catalog.undrop_table("t")

        shop.catalog.commit(txn)

        assert shop.count("mark", kind="prepared") == 0


def test_a_retention_that_was_raised_keeps_what_the_old_one_expanded(shop: Shop) -> None:
    shop.loaded(shop.table())
    before = shop.objects()
    shop.catalog.drop_table("t")
    placed = hold(shop, "table", "t")
    shop.later(RETAINED)
    shop.round()
    assert shop.count("mark", kind="tablet") == 1

    shop.policy = policy(RETENTION, GRACE, owners={CATALOG: OWN | {"table": 30 * 86_400}})
    shop.round()
    shop.holds.release(placed)
    shop.round()

    assert shop.objects() == before
    assert shop.count("mark", kind="tablet") == 0


class AwayOnce(Told):
    """An audit whose place is away for a while."""

    away = False

    def write(self, rows: Sequence[AuditRow]) -> None:
        if self.away:
            raise VaultFault(rows[0].vault, "UNREACHABLE", "away")
        super().write(rows)


def test_what_the_audit_could_not_be_told_at_the_second_look_it_is_told_later(clean_url: str, tmp_path: Path) -> None:
    audit = AwayOnce()
    shop = Shop(clean_url, audit=audit).opened()
    shop.local(tmp_path / "disk")
    [tablet] = shop.table()
    shop.loaded([tablet])
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    late = f"data/{tablet}/late_0.dat"
    shop.put("disk", late)
    shop.later(GRACE + 1)
    audit.away = True
    held = kept_texts(shop.round())
    audit.away = False
    shop.round()
    gone = shop.count("mark_history", kind="tablet")
    shop.away()

    assert held == {"vault disk: UNREACHABLE": 1, "its children": 1}
    assert gone == 1
    assert late in {row.key for row in audit.rows}


@pytest.mark.parametrize("point", ["outcomes.recorded", "audit.written"])
def test_the_audit_tells_what_a_second_look_deleted_before_it_crashed(shop: Shop, point: str) -> None:
    tablets = shop.table()
    shop.loaded(tablets)
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    late = f"data/{tablets[0]}/late_0.dat"
    shop.put("disk", late)
    shop.later(GRACE + 1)
    with installed(crash_at(point)), pytest.raises(Crash):
        shop.round()
    shop.later(120)

    shop.round()

    assert shop.objects() == set()
    assert late in {row.key for row in shop.told.rows}


def test_a_tablet_that_waits_for_an_unknown_vault_goes_when_it_is_added(shop: Shop, tmp_path: Path) -> None:
    tablets = shop.table()
    txn = shop.catalog.begin("load", HOUR)
    [output] = shop.catalog.prepare_rowsets(txn, tablets, "disk")
    shop.write(output)
    shop.catalog.commit(txn)
    shop.change(shop.t.rowsets, output.rowset, vault="warm")
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()
    reason = shop.row("tablet", tablets[0]).quarantined_reason

    shop.local(tmp_path / "warm", "warm")
    shop.put("warm", f"data/{tablets[0]}/{output.rowset}_0.dat")
    shop.round()

    assert reason == "UNKNOWN_VAULT"
    assert shop.objects("warm") == set()


def test_a_table_ends_when_a_tablet_of_it_was_given_up(shop: Shop) -> None:
    [tablet] = shop.table()
    [row] = shop.loaded([tablet])
    shop.change(shop.t.rowsets, row, vault="lost")
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    shop.round()

    QuarantineStore(shop.db).discard("shop", Ref("tablet", tablet), "the vault is lost for good")
    shop.round()

    assert Ref("table", "t") not in shop.refs()
