"""`sexton why` explains a catalog file: live, dropped with a parent, or deleted with its tablet."""

import pytest

from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.support.rig import stores_of


def events(shop: Shop, what: str) -> dict[tuple[str, str], dict[str, str]]:
    """Return every story: (kind, id) → its events by name."""
    audit = AuditReader(shop.db, AuditLocations(shop.vaults, shop.registry.vaults))
    given = WhyContext(shop.policy, stores_of(shop.db).insight, shop.owner, audit)
    return {(s.kind, s.id): {e.event: e.text for e in s.events} for s in story(shop.db, what, None, given)}


@pytest.fixture
def loaded(shop: Shop) -> tuple[str, str, str]:
    """A tablet of table ``t``, its one rowset, and the key of its first file."""
    [tablet] = shop.table("t")
    [rowset] = shop.loaded([tablet])
    return tablet, rowset, f"data/{tablet}/{rowset}_0.dat"


def test_a_visible_rowsets_file_is_shown_as_live(shop: Shop, loaded: tuple[str, str, str]) -> None:
    tablet, rowset, key = loaded

    told = events(shop, key)

    assert told == {("", ""): {"live": f"live: rowset {rowset} of tablet {tablet}, table t, index t-i, partition t-p"}}


def test_a_dropped_tables_file_shows_the_drop_and_due_time(shop: Shop, loaded: tuple[str, str, str]) -> None:
    shop.catalog.drop_table("t")

    told = events(shop, loaded[2])

    assert told.keys() == {("table", "t")}
    assert "falls_due" in told["table", "t"]


@pytest.mark.slow
def test_a_file_deleted_with_its_table_shows_its_outcome(shop: Shop, loaded: tuple[str, str, str]) -> None:
    tablet, _, key = loaded
    worker = Shop(shop.url, audit=ParquetAudit(AuditLocations(shop.vaults, shop.registry.vaults), 400))
    shop.catalog.drop_table("t")
    shop.later(RETAINED)
    report = worker.round()
    worker.close()

    told = events(shop, key)["tablet", tablet]

    assert told["below"] == "parents: table t"
    assert told["object_deleted"].startswith(f"gone: {key} in vault disk deleted")
    assert told["object_deleted"].endswith(f"round {report.round}")


def test_an_undropped_id_shows_its_record_and_parents(shop: Shop, loaded: tuple[str, str, str]) -> None:
    tablet, rowset, _ = loaded
    stands = "the catalog has a record of it: not dropped"

    told = {}
    for name in ("t", "t-i", "t-p", tablet, rowset):
        told |= events(shop, name)

    assert told == {
        ("table", "t"): {"record": stands},
        ("index", "t-i"): {"record": f"{stands}, table t"},
        ("partition", "t-p"): {"record": f"{stands}, table t"},
        ("tablet", tablet): {"record": f"{stands}, table t, index t-i, partition t-p"},
        ("rowset", rowset): {"record": f"the catalog has a record of it: visible, tablet {tablet}, index t-i"},
    }


def test_an_unknown_id_or_foreign_instance_shows_nothing(shop: Shop, loaded: tuple[str, str, str]) -> None:
    tablet, _, _ = loaded
    unknown = events(shop, "nothing")
    shop.sql("UPDATE {}instance SET owner = 'sql', knows_live = false")

    assert (unknown, events(shop, tablet)) == ({}, {})


def test_a_marked_id_shows_only_its_mark(shop: Shop, loaded: tuple[str, str, str]) -> None:
    shop.catalog.drop_table("t")

    told = events(shop, "t")

    assert told.keys() == {("table", "t")}
    assert "record" not in told["table", "t"]


def test_what_a_due_mark_waits_for_is_shown(shop: Shop, loaded: tuple[str, str, str]) -> None:
    shop.catalog.drop_table("t")
    shop.later(RETAINED)

    assert events(shop, "t")["table", "t"]["waits"] == "kept: it waits for its children"
