"""A replaced rowset is deleted only after all copies of its tablet have its versions (C14, C17)."""

import pytest

from sexton.marks.lease import Lease
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.file_lists import Span
from sexton.recycle.model import RoundReport
from sexton.replication.binlog.binlogs import BinlogService
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.replicas.model import Copy, Placement, ReplicaReport, Tablet, TabletReport
from sexton.replication.replicas.model import ReplicaSettings as ReplicaTerms
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from tests.integration.owners.catalog.shop import RETAINED, Shop
from tests.support.kept import kept_texts

FRESH = 10 * RETAINED


class Copies:
    """The copies of one tablet."""

    def __init__(self, shop: Shop, tablet: str, *backends: str) -> None:
        self.shop, self.tablet, self._sequence = shop, tablet, 0
        self.service = BinlogService(shop.db, BinlogSettings(), ReplicaTerms(freshness_seconds=FRESH), shop.controls)
        copies = tuple(Copy(backend=b, uid=f"u{b}") for b in backends)
        its = Tablet(tablet=tablet, part="t-p", copies=copies)
        self.service.placements.place("shop", Placement(db="sales", table="t", tablets=(its,)))

    def have(self, version: int, *backends: str) -> None:
        """Let backends report that they have all up to a version."""
        for backend in backends:
            self._sequence += 1
            its = TabletReport(uid=f"u{backend}", ranges=((0, version),))
            self.service.reports.accept("shop", backend, ReplicaReport(boot=1, sequence=self._sequence, tablets=(its,)))


def compacted(shop: Shop) -> tuple[str, list[str], set[str]]:
    """Return a tablet whose rowsets of versions 2 to 4 were compacted and are due, these, and all keys of them."""
    [tablet] = shop.table()
    old = [r for _ in range(3) for r in shop.loaded([tablet])]
    keys = set(shop.keys(*old))
    shop.compacted(tablet, old)
    return tablet, old, keys


def compacted_kept(report: RoundReport) -> dict[str, int]:
    """Return why compacted marks were kept, and how many."""
    return next(dict(kept_texts(kind)) for kind in report.kinds if kind.kind == "compacted")


def test_c14_rowsets_that_a_copy_needs_wait_and_name_the_backend(shop: Shop) -> None:
    tablet, old, keys = compacted(shop)
    with shop.db.read() as c:
        last = {r.id: r.last_version for r in c.execute(shop.t.rowsets.select())}
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
    shop.later(FRESH)

    shop.round()

    assert keys <= shop.objects()
    copies.have(100, "b1", "b2")
    shop.round()
    assert not keys & shop.objects()


def test_c17_a_tablet_without_copies_is_not_blocked(shop: Shop) -> None:
    _, _, keys = compacted(shop)
    [other] = shop.table("other")
    Copies(shop, other, "b1")
    shop.later(RETAINED)

    shop.round()

    assert not keys & shop.objects()


@pytest.mark.parametrize("what", ["table", "partition"])
def test_a_dropped_table_waits_for_no_copy(shop: Shop, what: str) -> None:
    tablet, _, keys = compacted(shop)
    Copies(shop, tablet, "b1", "b2")
    if what == "table":
        shop.catalog.drop_table("t")
    else:
        shop.catalog.drop_partition("t-p")
    shop.later(RETAINED)

    shop.round()
    shop.second_pass()

    assert not keys & shop.objects()


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
    tablet, _, keys = compacted(shop)
    copies = Copies(shop, tablet, "b1")
    copies.have(100, "b1")
    copies.service.replicas.full_copy("shop", tablet, "b1", "a mistake")
    shop.later(RETAINED)

    report = shop.round()

    assert keys <= shop.objects()
    assert compacted_kept(report) == {"replica on any backend: no replica counts": 3}


def test_marks_without_versions_are_not_blocked_by_replicas(shop: Shop) -> None:
    with shop.db.read() as c:
        token = WriteToken(
            batch=0, round=0, lease=Lease(instance="shop", job="recycle", owner="run", epoch=1), attempt=1
        )
        assert ReplicaKeeper(shop.db).blocking(c, token, [Candidate(Ref("dropped", "r1"))], Span(0), 0, None) == {}
