"""A check over the reference catalog knows every form of its files, and finds contradicting records."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sexton.owners.catalog.model import tablet_prefix
from tests.integration.owners.catalog.shop import SCHEMAS, Shop
from tests.support.rig import DAY, listing


@pytest.fixture
def shop(database_url: str, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(database_url).register().prove_by_clock()
    shop.local(tmp_path / "disk")
    yield shop
    shop.close()


def age(shop: Shop) -> None:
    for key in listing(shop.roots["disk"]):
        os.utime(shop.roots["disk"] / key, (1, 1))


def test_k01_k03_files_of_records_and_marks_are_known(shop: Shop) -> None:
    for name, schema in SCHEMAS.items():
        tablets = shop.table(name, 2, **{f"{name}-i": schema})
        first = shop.loaded(tablets, segments=2, bitmap=True)
        shop.loaded(tablets)
        shop.written(tablets)
        shop.prepared(tablets)
        shop.compacted(tablets[0], [first[0]])
    shop.catalog.drop_table("v1")
    age(shop)

    report = shop.check()

    assert (report.whole, report.found) == (True, {})
    assert report.run.evidence is not None
    assert (report.run.evidence.live or 0) > 0


def test_k02_files_of_removed_records_are_orphans(shop: Shop) -> None:
    gone: set[str] = set()
    for name, schema in SCHEMAS.items():
        tablets = shop.table(name, 2, **{f"{name}-i": schema})
        shop.loaded(tablets, segments=2, bitmap=True)
        gone |= {key for key in shop.objects() if key.startswith(tablet_prefix(tablets[0]))}
        shop.lose(shop.t.rowsets, tablet_id=tablets[0])
    foreign, dots = {f"data/{tablets[1]}/r_0.tmp", "README", f"data/{tablets[1]}/r_01.dat"}, "data/t/..._0.dat"
    for key in (*foreign, dots):
        shop.put("disk", key)
    age(shop)
    shop.check()

    found = shop.open_findings()

    assert found["ORPHAN"] == {*gone, dots}
    assert found["UNKNOWN_KIND"] == foreign
    assert {k.rpartition(".")[2] for k in gone} == {"dat", "idx", "db"}
    assert set(found) == {"ORPHAN", "UNKNOWN_KIND", "RECORD"}  # the tablets' counters tell of rowsets that are gone


def test_records_that_contradict_each_other_are_found(shop: Shop) -> None:
    tablets = shop.table(tablets=3)
    rowsets = shop.loaded(tablets)
    age(shop)
    assert shop.check().found == {}
    with shop.db.write() as c:
        c.execute(shop.t.tablets.delete().where(shop.t.tablets.c.id == tablets[0]))
        c.execute(shop.t.stats.update().where(shop.t.stats.c.tablet_id == tablets[1]).values(bytes=1))
        c.execute(shop.t.labels.update().values(txn_id="nobody"))
        c.execute(shop.t.partitions.delete())
    shop.check()

    found = {(f.key, f.detail) for f in shop.runs.findings("shop")}

    assert (f"rowset/{rowsets[0]}", f"its tablet has no record: {tablets[0]}") in found
    assert (f"tablet/{tablets[1]}", "its counters differ from its visible rowsets") in found
    assert any(key.startswith("label/") and detail == "its transaction has no record: nobody" for key, detail in found)
    assert any(key.startswith("version/") for key, _ in found)


def test_a_collected_rowset_leaves_no_finding(shop: Shop) -> None:
    tablets = shop.table(tablets=2)
    shop.loaded(tablets)
    shop.loaded(shop.table("kept"))
    shop.catalog.drop_table("t")
    age(shop)
    shop.round(after=DAY)
    shop.round(after=2 * 3_600)

    assert shop.check().found == {}
