"""A replaced rowset waits until all copies have its versions (C14, C17); `sexton why` explains files of the catalog."""

import pytest

from sexton.insight.why.blocking import WhyContext
from sexton.insight.why.story import story
from sexton.marks.model import Candidate, Lease, Ref, Span, WriteToken
from sexton.recycle.audit.store import AuditReader
from sexton.recycle.audit.writer import AuditLocations, ParquetAudit
from sexton.recycle.model import RoundReport
from sexton.replication.binlog.binlogs import BinlogService
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.replicas.model import Copy, Placement, ReplicaReport, Tablet, TabletReport
from sexton.replication.replicas.model import ReplicaSettings as ReplicaTerms
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.support.kept import kept_texts
from tests.support.rig import stores_of

FRESH = 10 * RETAINED


class Copies:
    """The copies of one tablet."""

    def __init__(self, shop: Shop, tablet: str, *backends: str, part: str = "t-p") -> None:
        self.shop, self.tablet, self._sequence = shop, tablet, 0
        self.service = BinlogService(shop.db, BinlogSettings(), ReplicaTerms(freshness_seconds=FRESH), shop.controls)
        copies = tuple(Copy(backend=b, uid=f"u{b}") for b in backends)
        its = Tablet(tablet=tablet, part=part, copies=copies)
        self.service.placements.place("shop", Placement(db="sales", table=part.removesuffix("-p"), tablets=(its,)))

    def have(self, version: int, *backends: str) -> None:
        """Let backends report that they have all up to a version."""
        for backend in backends:
            self._sequence += 1
            its = TabletReport(uid=f"u{backend}", ranges=((0, version),))
            self.service.reports.accept("shop", backend, ReplicaReport(boot=1, sequence=self._sequence, tablets=(its,)))


def compacted(shop: Shop, table: str = "t") -> tuple[str, list[str], set[str]]:
    """Return a tablet whose rowsets of versions 2 to 4 were compacted and are due, these, and all keys of them."""
    [tablet] = shop.table(table)
    old = [r for _ in range(3) for r in shop.loaded([tablet])]
    keys = set(shop.keys(*old))
    shop.compacted(tablet, old)
    return tablet, old, keys


def compacted_kept(report: RoundReport) -> dict[str, int]:
    """Return why compacted marks were kept, and how many."""
    return next(dict(kept_texts(kind)) for kind in report.kinds if kind.kind == "compacted")


def test_c14_rowsets_that_a_copy_needs_wait_and_name_the_backend(shop: Shop) -> None:
    tablet, old, keys = compacted(shop)
    last = {r.id: r.last_version for r in shop.records(shop.t.rowsets)}
    copies = Copies(shop, tablet, "b1", "b2")
    shop.later(RETAINED)
    lowest = min(last[r] for r in old)
    copies.have(100, "b1")
    copies.have(lowest, "b2")
    first = set(shop.keys(*(r for r in old if last[r] <= lowest)))

    report = shop.round()

    assert keys - shop.objects() == first
    assert compacted_kept(report) == {"replica on b2": 2}
    copies.have(100, "b2")
    shop.round()
    assert not keys & shop.objects()


def test_c17_compacted_rowsets_wait_for_a_fresh_report(shop: Shop) -> None:
    tablet, _, keys = compacted(shop)
    copies = Copies(shop, tablet, "b1", "b2")
    copies.have(100, "b1", "b2")

    shop.round(after=FRESH)

    assert keys <= shop.objects()
    copies.have(100, "b1", "b2")
    shop.round()
    assert not keys & shop.objects()


def test_c17_a_tablet_without_copies_is_not_blocked(shop: Shop) -> None:
    _, _, keys = compacted(shop)
    [other] = shop.table("other")
    Copies(shop, other, "b1")

    shop.round(after=RETAINED)

    assert not keys & shop.objects()


def test_a_dropped_table_waits_for_no_copy(shop: Shop) -> None:
    for kind in ("table", "partition"):
        tablet, _, _ = compacted(shop, kind)
        Copies(shop, tablet, f"{kind}1", f"{kind}2", part=f"{kind}-p")
        shop.drop(kind, kind)

    shop.round(after=RETAINED)
    shop.second_pass()

    assert shop.objects() == set()


def test_a_copy_given_up_by_an_operator_blocks_nothing(shop: Shop) -> None:
    tablet, _, keys = compacted(shop)
    copies = Copies(shop, tablet, "b1", "b2")
    shop.later(RETAINED)
    copies.have(100, "b1")
    shop.round()
    assert keys <= shop.objects()

    copies.service.replicas.full_copy("shop", tablet, "b2", "its disk is gone")
    shop.round()

    assert not keys & shop.objects()


def test_a_tablet_whose_copies_are_all_given_up_is_kept(shop: Shop) -> None:
    tablet, [rowset, *_], keys = compacted(shop)
    copies = Copies(shop, tablet, "b1")
    copies.have(100, "b1")
    copies.service.replicas.full_copy("shop", tablet, "b1", "a mistake")

    report = shop.round(after=RETAINED)

    assert keys <= shop.objects()
    assert compacted_kept(report) == {"replica on any backend: no replica counts": 3}
    [told] = events(shop, rowset).values()
    assert told["replica"].startswith("kept by replica on any backend: no replica counts: deleted when every replica")


def test_marks_without_versions_are_not_blocked_by_replicas(shop: Shop) -> None:
    with shop.db.read() as c:
        token = WriteToken(
            batch=0, round=0, lease=Lease(instance="shop", job="recycle", owner="run", epoch=1), attempt=1
        )
        assert ReplicaKeeper(shop.db).blocking(c, token, [Candidate(Ref("dropped", "r1"))], Span(0), 0, None) == {}


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


def test_a_live_file_and_undropped_ids_show_their_records(shop: Shop, loaded: tuple[str, str, str]) -> None:
    tablet, rowset, key = loaded
    stands = "the catalog has a record of it: not dropped"

    of_file, of_ids, unknown = events(shop, key), dict[tuple[str, str], dict[str, str]](), events(shop, "nothing")
    for name in ("t", "t-i", "t-p", tablet, rowset):
        of_ids |= events(shop, name)
    shop.sql("UPDATE {}instance SET owner = 'sql', knows_live = false")

    live = f"live: rowset {rowset} of tablet {tablet}, table t, index t-i, partition t-p"
    assert of_file == {("", ""): {"live": live}}
    assert of_ids == {
        ("table", "t"): {"record": stands},
        ("index", "t-i"): {"record": f"{stands}, table t"},
        ("partition", "t-p"): {"record": f"{stands}, table t"},
        ("tablet", tablet): {"record": f"{stands}, table t, index t-i, partition t-p"},
        ("rowset", rowset): {"record": f"the catalog has a record of it: visible, tablet {tablet}, index t-i"},
    }
    assert (unknown, events(shop, tablet)) == ({}, {})  # of an instance that is no catalog


def test_a_dropped_tables_file_shows_the_drop_and_its_wait(shop: Shop, loaded: tuple[str, str, str]) -> None:
    shop.catalog.drop_table("t")
    of_file, of_id = events(shop, loaded[2]), events(shop, "t")
    shop.later(RETAINED)

    assert of_file.keys() == of_id.keys() == {("table", "t")}
    assert "falls_due" in of_file["table", "t"]
    assert "record" not in of_id["table", "t"]
    assert events(shop, "t")["table", "t"]["waits"] == "kept: it waits for its children"


def test_a_file_deleted_with_its_table_shows_its_outcome(shop: Shop, loaded: tuple[str, str, str]) -> None:
    tablet, _, key = loaded
    worker = Shop(shop.url, audit=ParquetAudit(AuditLocations(shop.vaults, shop.registry.vaults), 400))
    shop.drop("table", later=RETAINED)
    report = worker.round()
    worker.close()

    told = events(shop, key)["tablet", tablet]

    assert told["below"] == "parents: table t"
    assert told["object_deleted"].startswith(f"gone: {key} in vault disk deleted")
    assert told["object_deleted"].endswith(f"round {report.round}")
