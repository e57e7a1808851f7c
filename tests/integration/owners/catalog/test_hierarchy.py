"""Rounds delete a dropped table's files first, then all records below it, then the table's record."""

from pathlib import Path

import pytest

from sexton import contract
from sexton.marks.model import Ref
from sexton.owners.catalog.model import Schema
from sexton.owners.catalog.tables import TABLES
from tests.integration.owners.catalog.shop import GRACE, HOUR, RETAINED, Shop
from tests.servers.fault_proxy import FaultProxy
from tests.support.kept import kept_texts


def rounds(shop: Shop) -> list[int]:
    """Run as many rounds as a hierarchy of prefixes needs: the delete, the second look, the parents."""
    deleted = []
    for _ in range(3):
        deleted.append(shop.round().deleted)
        shop.later(GRACE + 1)
    return deleted


def leftovers(shop: Shop, *but: str) -> dict[str, int]:
    """Return which of the catalog's tables still hold rows."""
    found = {table.name: shop.number(table) for table in TABLES.tables.metadata.sorted_tables if table.name not in but}
    return {name: n for name, n in found.items() if n}


@pytest.mark.slow
def test_r14_a_dropped_index_leaves_no_file_and_no_record(shop: Shop) -> None:
    shop.prove_by_clock().table("t", 100, base=Schema(), rollup=Schema(inverted=("7",)))
    base, rollup = shop.catalog.tablets(index="base"), shop.catalog.tablets(index="rollup")
    for _ in range(8):
        shop.loaded(rollup)
    kept = set(shop.keys(*shop.loaded(base)))
    shop.catalog.drop_rowset(*shop.loaded(rollup))
    shop.written(rollup)
    for tablet in rollup[:10]:
        rowsets = [r for r in shop.records(shop.t.rowsets) if r.tablet_id == tablet]
        shop.compacted(tablet, [r.id for r in rowsets if r.state == "visible"])
        shop.catalog.start_compaction(tablet, shop.loaded([tablet]), "disk")
    files = len(shop.objects()) - len(kept)
    shop.catalog.drop_index("rollup")
    shop.later(RETAINED)

    deleted = rounds(shop)
    once = (shop.refs(), leftovers(shop), shop.objects())
    repeat = rounds(shop)

    assert sum(deleted) == files
    assert shop.objects() == kept
    assert shop.catalog.tablets() == base
    assert {r.kind for r in shop.refs()} <= {"txn_label"}
    assert shop.number(shop.t.indexes) == shop.number(shop.t.schemas) == 1
    assert shop.number(shop.t.rowsets) == shop.number(shop.t.stats) == 100
    assert shop.number(shop.t.jobs) == 0
    assert sum(repeat) == 0
    assert once == (shop.refs(), leftovers(shop), shop.objects())


@pytest.mark.slow
def test_r15_only_the_dropped_partitions_version_is_deleted(shop: Shop) -> None:
    shop.table(tablets=3, partitions=["gone", "kept"])
    shop.loaded(shop.catalog.tablets(partition="gone"))
    kept = shop.loaded(shop.catalog.tablets(partition="kept"))
    shop.catalog.drop_partition("gone")
    shop.later(RETAINED)

    deleted = rounds(shop)

    assert sum(deleted) == 3
    assert shop.objects() == set(shop.keys(*kept))
    assert {r.kind for r in shop.refs()} == {"txn_label"}
    assert (shop.number(shop.t.partitions), shop.number(shop.t.versions)) == (1, 1)
    assert shop.number(shop.t.versions, partition_id="kept") == 1
    assert shop.catalog.tablets() == shop.catalog.tablets(partition="kept")
    assert shop.states(shop.loaded(shop.catalog.tablets())) == {"visible"}


def test_r15_a_late_version_of_a_deleted_table_is_deleted(shop: Shop) -> None:
    shop.table()
    shop.add(shop.t.versions, {"instance": "shop", "table_id": "old", "partition_id": "old-p", "value": 7})

    shop.round()

    assert shop.number(shop.t.versions) == shop.number(shop.t.versions, partition_id="t-p") == 1


@pytest.mark.slow
def test_r16_only_a_tablet_with_failed_files_keeps_its_records(cold_shop: Shop, proxy: FaultProxy) -> None:
    tablets = cold_shop.table(tablets=5)
    rowsets = cold_shop.loaded(tablets, "cold")
    stuck = cold_shop.keys(rowsets[2])
    cold_shop.drop("table", later=RETAINED)
    proxy.fail_keys(dict.fromkeys(stuck, "AccessDenied"), times=2)

    cold_shop.round()
    cold_shop.second_pass()
    kept = (cold_shop.objects("cold"), cold_shop.catalog.tablets(), cold_shop.number(cold_shop.t.rowsets))
    table = cold_shop.record(cold_shop.t.tables, "t")
    rounds(cold_shop)

    assert kept == (set(stuck), [tablets[2]], 1)
    assert table.dropped
    assert cold_shop.objects("cold") == set()
    assert leftovers(cold_shop, "txns", "labels") == {}


def test_r17_a_tablet_is_deleted_in_every_vault_of_its_rowsets(shop: Shop, tmp_path: Path) -> None:
    shop.local(tmp_path / "two", "two")
    shop.table(partitions=["p1", "p2"], base=Schema(), rollup=Schema(inverted=("1", "2")))
    tablets = shop.catalog.tablets()
    shop.loaded(tablets, bitmap=True)
    shop.catalog.drop_rowset(*shop.loaded(tablets, "two"))
    before = {key.split("/")[1] for key in shop.objects("two")}
    shop.drop("table", later=RETAINED)

    rounds(shop)

    assert before == {*tablets}
    assert (shop.objects(), shop.objects("two")) == (set(), set())
    assert leftovers(shop, "txns", "labels") == {}
    assert {r.kind for r in shop.refs()} == {"txn_label"}


@pytest.mark.slow
def test_a_tablet_waits_in_both_vaults_for_the_unproven_one(shop: Shop, tmp_path: Path) -> None:
    shop.local(tmp_path / "two", "two")
    [both, one] = shop.table(tablets=2)
    shop.loaded([both, one])
    shop.loaded([both], "two")
    (tmp_path / "two" / "_sexton" / "vault.json").rename(tmp_path / "away.json")
    shop.drop("table", later=RETAINED)

    shop.round()
    kept = (len(shop.objects()), len(shop.objects("two")))
    (tmp_path / "away.json").rename(tmp_path / "two" / "_sexton" / "vault.json")
    rounds(shop)

    assert kept == (1, 1)
    assert (shop.objects(), shop.objects("two")) == (set(), set())
    assert leftovers(shop, "txns", "labels") == {}


def test_r46_a_table_with_a_deleted_partition_is_not_undropped(shop: Shop) -> None:
    shop.table(partitions=["p1", "p2"])
    shop.loaded(shop.catalog.tablets())
    shop.catalog.drop_partition("p1")
    shop.later(RETAINED - HOUR)
    shop.catalog.drop_table("t")
    shop.round(after=HOUR)
    [claimed] = shop.catalog.tablets(partition="p1")

    with pytest.raises(contract.Refused, match=f"tablet {claimed} is claimed"):
        shop.catalog.undrop_table("t")
    shop.second_pass()
    with pytest.raises(contract.Refused, match="partition p1"):
        shop.catalog.undrop_table("t")

    assert len(shop.objects()) == 1
    assert shop.record(shop.t.tables, "t").dropped


def test_r49_a_tablets_compacted_rowsets_are_counted_once(shop: Shop) -> None:
    [tablet] = shop.table()
    inputs = shop.loaded([tablet], segments=3) + shop.loaded([tablet], segments=3)
    shop.compacted(tablet, inputs)
    shop.written([tablet])
    files = len(shop.objects())
    shop.drop("table", later=RETAINED)

    report = shop.round()
    early = shop.refs()
    rounds(shop)

    assert (report.deleted, report.bytes_freed, report.bytes_estimated) == (files, 10 * files, 0)
    assert {Ref("compacted", i) for i in inputs} <= early
    assert shop.count("mark_history", kind="compacted") == 2
    assert {r.kind for r in shop.refs()} == {"txn_label"}
    assert shop.objects() == set()
    assert leftovers(shop, "txns", "labels") == {}


def test_a_tablet_in_an_unknown_vault_waits_for_the_vault(shop: Shop, tmp_path: Path) -> None:
    tablet, [rowset] = shop.filled()
    shop.change(shop.t.rowsets, rowset, vault="warm")
    shop.drop("table", later=RETAINED)
    shop.round()
    reason = shop.row("tablet", tablet).quarantined_reason

    shop.local(tmp_path / "warm", "warm")
    shop.put("warm", f"data/{tablet}/{rowset}_0.dat")
    shop.round()

    assert reason == "UNKNOWN_VAULT"
    assert shop.objects("warm") == set()


def test_a_hold_on_a_live_table_blocks_its_dropped_rowset(shop: Shop) -> None:
    [row] = shop.loaded(shop.table())
    shop.catalog.drop_rowset(row)
    placed, before = shop.hold("table", "t"), shop.objects()

    report = shop.round(after=RETAINED)

    assert shop.objects() == before
    assert kept_texts(report) == {f"hold {placed}": 1}


def test_a_hold_blocks_a_partition_of_an_expanded_table(shop: Shop) -> None:
    shop.filled()
    shop.drop("table")
    shop.expand_all()
    shop.hold("partition", "t-p")
    before = shop.objects()

    shop.round(after=RETAINED)

    assert shop.objects() == before


def test_a_load_into_a_held_table_is_not_aborted(shop: Shop) -> None:
    tablets = shop.table()
    txn = shop.catalog.begin("long", 5 * 86_400)
    [output] = shop.catalog.prepare_rowsets(txn, tablets, "disk")
    shop.write(output)
    shop.catalog.drop_table("t")
    shop.hold("table", "t")
    shop.round(after=RETAINED)
    shop.catalog.undrop_table("t")

    shop.catalog.commit(txn)

    assert shop.count("mark", kind="prepared") == 0


def test_a_longer_retention_blocks_an_expanded_table(shop: Shop) -> None:
    shop.loaded(shop.table())
    before = shop.objects()
    shop.catalog.drop_table("t")
    placed = shop.hold("table", "t")
    shop.round(after=RETAINED)
    assert shop.count("mark", kind="tablet") == 1

    shop.retain(table=30 * 86_400)
    shop.round()
    shop.holds.release(placed)
    shop.round()

    assert shop.objects() == before
    assert shop.count("mark", kind="tablet") == 0


def test_an_unreadable_table_keeps_only_its_own_marks(shop: Shop) -> None:
    shop.due_tablet()
    with shop.without(shop.t.txns):
        report = shop.round()

    assert shop.objects() == set()
    assert any(why.startswith("owner: the catalog's tables cannot be read") for why in kept_texts(report))


def test_an_observed_instance_shows_what_its_owner_would_mark(shop: Shop) -> None:
    [tablet] = shop.table()
    shop.drop("table", later=RETAINED)
    shop.registry.observe("shop")
    opened = shop.rounds.open("shop", "observes", None, shop.policy)

    shop.recycler.mark_due(opened, lambda: None)

    assert {(k.kind, k.marks) for k in shop.plan().kinds} >= {("table", 1), ("tablet", 1)}
    assert shop.row("tablet", tablet).state == "MARKED"


def test_a_plan_does_not_count_children_of_marks_that_wait(shop: Shop) -> None:
    tablet, rowsets = shop.filled(3)
    shop.compacted(tablet, rowsets)
    shop.drop("table", later=RETAINED)
    shop.round()  # claims the tablet with three compacted rowsets; its second pass is due in an hour
    shop.round()
    assert shop.count("mark", state="CLAIMED", first_pass_at=None, absorbed=True) == 3

    assert shop.plan().claimed == 0
