"""Entries and pages of the journal have a largest size; a follower that stands still retains none for long."""

import pytest

from sexton.replication.errors import JournalTrimmed
from sexton.replication.journal.model import MAX_ENTRY_NAMES, Op
from sexton.replication.replicas.model import Copy, Placement, Tablet, TabletReport
from tests.integration.replication.binlog_instance import BINLOG_SETTINGS, DB, SHOP, BinlogInstance

HOLD = BINLOG_SETTINGS.hold_limit_seconds


def append(binlogs: BinlogInstance, *sizes: int) -> None:
    """Append entries whose bodies have about these numbers of characters."""
    with binlogs.db.write() as c:
        for size in sizes:
            binlogs.service.journal.append(c, SHOP, Op.GC_BINLOG, [{"text": "x" * size}])


def poll_for(binlogs: BinlogInstance, seconds: int, after: int, follower: str) -> None:
    """Let a follower ask for the same entries every quarter of the hold limit until the time is over."""
    for _ in range(0, seconds, HOLD // 4):
        binlogs.service.journal.read(SHOP, after, follower)
        binlogs.later(HOLD // 4)
        binlogs.service.journal.trim(SHOP, HOLD * 1_000, lambda: None)


def lost(binlogs: BinlogInstance) -> dict[str, bool]:
    return {f.name: f.lost_at is not None for f in binlogs.service.journal.followers(SHOP)}


def test_page_ends_at_its_size_with_at_least_one_entry(binlogs: BinlogInstance) -> None:
    half, whole = 2**19, 2**20
    append(binlogs, half, half, 10, 3 * whole, 10, *[10] * 120)
    pages, after = list[list[int]](), 0

    while page := binlogs.service.journal.read(SHOP, after).entries:
        pages.append([entry.seq for entry in page])
        after = page[-1].seq

    assert pages[:2] == [[1, 2], [3, 4]]
    assert [len(page) for page in pages[2:]] == [100, 21]
    assert [seq for page in pages for seq in page] == list(range(1, 126))


def test_follower_that_stands_still_is_lost_though_it_asks(binlogs: BinlogInstance) -> None:
    append(binlogs, 1, 1, 1)
    binlogs.service.journal.read(SHOP, 3, "quick")

    with pytest.raises(JournalTrimmed):
        poll_for(binlogs, 2 * HOLD, 1, "still")

    assert lost(binlogs) == {"still": True, "quick": True}


def test_follower_that_has_all_entries_is_not_lost(binlogs: BinlogInstance) -> None:
    append(binlogs, 1, 1, 1)

    poll_for(binlogs, 2 * HOLD, 3, "idle")
    append(binlogs, 1)
    binlogs.service.journal.read(SHOP, 3, "idle")

    assert lost(binlogs) == {"idle": False}
    assert [entry.seq for entry in binlogs.service.journal.read(SHOP, 3, "idle").entries] == [4]


def test_follower_that_advances_is_not_lost(binlogs: BinlogInstance) -> None:
    append(binlogs, *[1] * 9)

    for after in range(4):
        poll_for(binlogs, HOLD // 2, after, "slow")

    assert lost(binlogs) == {"slow": False}


def test_lost_follower_counts_again_when_it_advances(binlogs: BinlogInstance) -> None:
    append(binlogs, 1, 1, 1)
    journal = binlogs.service.journal
    journal.read(SHOP, 1, "back")
    assert journal.trim(SHOP, 0, lambda: None) == 3
    append(binlogs, 1, 1)

    states = [lost(binlogs)]
    for after in (3, 4):
        journal.read(SHOP, after, "back")
        states.append(lost(binlogs))

    assert states == [{"back": True}, {"back": False}, {"back": False}]


def test_a_large_report_is_several_entries_without_a_hole(binlogs: BinlogInstance) -> None:
    names = [f"t{n}" for n in range(2 * MAX_ENTRY_NAMES + 1)]
    tablets = tuple(Tablet(tablet=n, part="p1", copies=(Copy(backend="b1", uid=n),)) for n in names)
    binlogs.service.placements.place(SHOP, Placement(db=DB, table="orders", tablets=tablets))

    binlogs.report("b1", *(TabletReport(uid=name, bad=True) for name in names))

    entries = binlogs.journal()
    sizes = [len(entry.body["replicaReportInfos"]) for entry in entries]
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert sizes == [MAX_ENTRY_NAMES, MAX_ENTRY_NAMES, 1]
