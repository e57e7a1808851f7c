"""The journal is ordered, limited, replays despite unknown entries, and is kept for followers (B14, B30, C13)."""

import threading
from contextlib import nullcontext

import pytest

from sexton.kernel.crash_points import installed
from sexton.replication.errors import FollowerAhead, JournalTrimmed
from sexton.replication.journal.model import MAX_ENTRY_NAMES, JournalEntry, Op
from sexton.replication.journal.replaying import FollowerState, ReplicaHealth
from sexton.replication.replicas.model import Copy, Placement, Tablet, TabletReport
from tests.integration.replication.binlog_instance import BINLOG_SETTINGS, DB, BinlogInstance
from tests.support.eventually import PATIENCE_SECONDS
from tests.support.locks import wait_for_lock_waiter


def caught_up(binlogs: BinlogInstance, follower: FollowerState) -> FollowerState:
    """Let a follower apply all there is."""
    while page := binlogs.service.journal.read(binlogs.instance, follower.applied).entries:
        for entry in page:
            follower.apply(entry)
    return follower


def test_b14_a_replay_with_unknown_databases_completes(binlogs: BinlogInstance) -> None:
    its = FollowerState()
    its.record(DB, 1, ["orders"])
    null = {"dbBinlogTombstone": False, "dbId": DB, "tableIds": None, "commitSeq": 9}
    unknown = {"dbBinlogTombstone": True, "dbId": 77, "commitSeq": 5, "future": [1]}
    said = {"dbBinlogTombstone": True, "dbId": DB, "tableIds": ["orders", 4], "commitSeq": 1}
    bodies = [{"tombstones": [null, unknown, "x", {}, said]}, {}, {"tombstones": 3}, {"tombstones": [[]]}]

    for n, body in enumerate(bodies, 1):
        assert its.apply(JournalEntry(seq=n, op=Op.GC_BINLOG, body=body))
    assert its.apply(JournalEntry(seq=5, op=999, body={"x": 1}))

    assert (its.applied, its.logs(), its.databases[DB].watermark) == (5, {}, 1)
    assert not its.apply(JournalEntry(seq=3, op=Op.GC_BINLOG, body=bodies[0]))


def test_c13_unknown_replicas_are_skipped_and_the_rest_applied() -> None:
    its = FollowerState()
    for tablet in ("1", "2", "3"):
        its.place(tablet, "9")
    told = [
        {"tabletId": 77, "type": "BAD"},
        {"tabletId": 1, "type": "NEVER_HEARD"},
        {"tabletId": 2, "type": "MISSING_VERSION", "lastFailedVersion": 11},
        {"tabletId": 3, "type": "BAD", "lastFailedVersion": -1},
        None,
    ]

    its.apply(JournalEntry(seq=1, op=48, body={"backendId": 9, "replicaReportInfos": told}))
    old = {"backendId": 9, "bad": True, "tabletSchemaHash": [{"first": 1, "second": 5}, [77, 5], 4]}
    its.apply(JournalEntry(seq=2, op=46, body=old))

    assert its.unhealthy() == {
        ("2", "9"): ReplicaHealth(failed=11),
        ("3", "9"): ReplicaHealth(bad=True),
        ("1", "9"): ReplicaHealth(bad=True),
    }
    its.apply(
        JournalEntry(seq=3, op=48, body={"backendId": 9, "replicaReportInfos": [{"tabletId": "3", "type": "HEALTHY"}]})
    )
    assert ("3", "9") not in its.unhealthy()


def test_b30_a_follower_misses_nothing_of_two_writers(binlogs: BinlogInstance) -> None:
    journal, seen, stop = binlogs.service.journal, list[int](), threading.Event()

    def write() -> None:
        for _ in range(20):
            with binlogs.db.write() as c:
                journal.append(c, binlogs.instance, Op.GC_BINLOG, [{}])

    def follow() -> None:
        while not stop.is_set() or journal.head(binlogs.instance) > (seen[-1] if seen else 0):
            seen.extend(e.seq for e in journal.read(binlogs.instance, seen[-1] if seen else 0).entries)

    writers = [threading.Thread(target=write) for _ in range(3)]
    following = threading.Thread(target=follow)
    for its in (*writers, following):
        its.start()
    for its in writers:
        its.join(PATIENCE_SECONDS)
    stop.set()
    following.join(PATIENCE_SECONDS)

    assert seen == list(range(1, 61))


def test_b30_the_second_writer_waits_for_the_first(binlogs: BinlogInstance) -> None:
    second = threading.Event()

    def write() -> None:
        with binlogs.db.write() as c:
            binlogs.service.journal.append(c, binlogs.instance, Op.GC_BINLOG, [{"by": "second"}])
        second.set()

    writing = threading.Thread(target=write)
    with binlogs.db.write() as c:
        assert binlogs.service.journal.append(c, binlogs.instance, Op.GC_BINLOG, [{"by": "first"}]) == 1
        writing.start()
        wait_for_lock_waiter(binlogs.db)
        assert not second.is_set()
        assert binlogs.service.journal.read(binlogs.instance, 0).entries == ()
    writing.join(PATIENCE_SECONDS)

    assert [e.body["by"] for e in binlogs.service.journal.read(binlogs.instance, 0).entries] == ["first", "second"]


def test_entries_are_kept_for_the_slowest_follower(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(0)
    for seq in range(1, 6):
        binlogs.commit(seq)
        binlogs.cut_expired()
    head = binlogs.service.journal.head(binlogs.instance)
    binlogs.service.journal.read(binlogs.instance, 2, "slow")
    binlogs.service.journal.read(binlogs.instance, head, "quick")

    binlogs.cut_expired()

    assert binlogs.service.journal.read(binlogs.instance, 2).entries[0].seq == 3
    with pytest.raises(JournalTrimmed) as told:
        binlogs.service.journal.read(binlogs.instance, 1)
    assert told.value.first == 3
    with pytest.raises(FollowerAhead):
        binlogs.service.journal.read(binlogs.instance, head + 1)


def test_a_restarted_follower_equals_the_others(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(100)
    binlogs.place("t1", "b1", "b2")
    for seq in (1, 2, 3):
        binlogs.commit(seq, binlogs.now - 200_000, orders={"p1": seq})
    binlogs.commit(4, orders={"p1": 4})
    binlogs.report("b1", TabletReport(uid="t1.b1", bad=True))
    binlogs.cut_expired()
    old, new = FollowerState(), FollowerState()
    for its in (old, new):
        for seq in (1, 2, 3, 4):
            its.record(DB, seq, ["orders"])
        for backend in ("b1", "b2"):
            its.place("t1", backend)

    new.load_snapshot(binlogs.service.replicas.snapshot(binlogs.instance))
    caught_up(binlogs, old)

    assert new.applied == old.applied == binlogs.service.journal.head(binlogs.instance)
    assert new.logs() == old.logs() == {DB: {"": [4], "orders": [4]}}
    assert new.unhealthy() == old.unhealthy() == {("t1", "b1"): ReplicaHealth(bad=True)}


@pytest.mark.parametrize("point", ["binlog.written", "report.written"])
def test_a_rolled_back_change_is_not_in_the_journal(binlogs: BinlogInstance, point: str) -> None:
    binlogs.configure_log(0)
    binlogs.place("t1", "b1")
    binlogs.commit(1, orders={"p1": 1})
    before = binlogs.service.journal.head(binlogs.instance)

    def crash(name: str) -> None:
        if name == point:
            raise KeyError(name)

    with installed(crash), pytest.raises(KeyError):  # noqa: PT012
        binlogs.cut_expired()
        binlogs.report("b1", TabletReport(uid="t1.b1", bad=True))

    assert binlogs.service.journal.head(binlogs.instance) == before + (point == "report.written")
    binlogs.cut_expired()
    binlogs.report("b1", TabletReport(uid="t1.b1", bad=True))
    assert [e.seq for e in binlogs.journal()] == list(range(1, before + 3))


HOLD = BINLOG_SETTINGS.hold_limit_seconds


def append(binlogs: BinlogInstance, *sizes: int) -> None:
    """Append entries whose bodies have about these numbers of characters."""
    with binlogs.db.write() as c:
        for size in sizes:
            binlogs.service.journal.append(c, binlogs.instance, Op.GC_BINLOG, [{"text": "x" * size}])


def lost(binlogs: BinlogInstance) -> dict[str, bool]:
    return {f.name: f.lost_at is not None for f in binlogs.service.journal.followers(binlogs.instance)}


def test_page_ends_at_its_size_with_at_least_one_entry(binlogs: BinlogInstance) -> None:
    half, whole = 2**19, 2**20
    append(binlogs, half, half, 10, 3 * whole, 10, *[10] * 120)
    pages, after = list[list[int]](), 0

    while page := binlogs.service.journal.read(binlogs.instance, after).entries:
        pages.append([entry.seq for entry in page])
        after = page[-1].seq

    assert pages[:2] == [[1, 2], [3, 4]]
    assert [len(page) for page in pages[2:]] == [100, 21]
    assert [seq for page in pages for seq in page] == list(range(1, 126))


def test_follower_that_stands_still_is_lost_though_it_asks(binlogs: BinlogInstance) -> None:
    append(binlogs, *[1] * 9)
    journal = binlogs.service.journal
    journal.read(binlogs.instance, 9, "silent")
    for quarter in range(8):  # of the hold limit
        journal.read(binlogs.instance, 9, "idle")
        journal.read(binlogs.instance, 1 + quarter // 2, "slow")
        with pytest.raises(JournalTrimmed) if quarter >= 4 else nullcontext():
            journal.read(binlogs.instance, 1, "still")
        binlogs.later(HOLD // 4)
        journal.trim(binlogs.instance, HOLD * 1_000, lambda: None)

    assert lost(binlogs) == {"silent": True, "idle": False, "slow": False, "still": True}


def test_lost_follower_counts_again_when_it_advances(binlogs: BinlogInstance) -> None:
    append(binlogs, 1, 1, 1)
    journal = binlogs.service.journal
    journal.read(binlogs.instance, 1, "back")
    assert journal.trim(binlogs.instance, 0, lambda: None) == 3
    append(binlogs, 1, 1)

    states = [lost(binlogs)]
    for after in (3, 4):
        journal.read(binlogs.instance, after, "back")
        states.append(lost(binlogs))

    assert states == [{"back": True}, {"back": False}, {"back": False}]


def test_a_large_report_is_several_entries_without_a_hole(binlogs: BinlogInstance) -> None:
    names = [f"t{n}" for n in range(2 * MAX_ENTRY_NAMES + 1)]
    tablets = tuple(Tablet(tablet=n, part="p1", copies=(Copy(backend="b1", uid=n),)) for n in names)
    binlogs.service.placements.place(binlogs.instance, Placement(db=DB, table="orders", tablets=tablets))

    binlogs.report("b1", *(TabletReport(uid=name, bad=True) for name in names))

    entries = binlogs.journal()
    sizes = [len(entry.body["replicaReportInfos"]) for entry in entries]
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert sizes == [MAX_ENTRY_NAMES, MAX_ENTRY_NAMES, 1]
