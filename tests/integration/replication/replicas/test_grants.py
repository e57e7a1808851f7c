"""A backend is granted a cut only when every copy has the versions (B07, B08, B20, B23, B29, C14 to C17)."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.crash_points import installed
from sexton.kernel.errors import BadInput
from sexton.operators.controls.model import ALL, ControlKind
from sexton.replication.agent.model import CutDone
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, BinlogSettings
from sexton.replication.errors import LastCopy
from sexton.replication.journal.model import Op
from sexton.replication.replicas.model import Copy, Placement, ReplicaSettings, Tablet, TabletReport
from sexton.replication.replicas.policy import lowest_needed_version
from tests.integration.replication.binlog_instance import DB, INTERVAL, REPLICA_SETTINGS, BinlogInstance, new_instance
from tests.support.crashes import Crash, crash_at

FRESH = REPLICA_SETTINGS.freshness_seconds
LIMIT = 1_200
"""Seconds after which a silent copy is given up."""


def expired(binlogs: BinlogInstance, seq: int, version: int, part: str = "p1", table: str = "orders") -> None:
    """Commit an upsert that has expired."""
    binlogs.commit(seq, binlogs.now - 60_000, **{table: {part: version}})


@pytest.fixture
def binlogs(db: Database) -> BinlogInstance:
    """A database with a TTL, and one tablet on two backends."""
    limit = {"hold_limit_seconds": LIMIT}
    binlogs = new_instance(db, BinlogSettings(**limit), ReplicaSettings(**limit))
    binlogs.configure_log(10)
    binlogs.place("t1", "b1", "b2")
    return binlogs


def well(binlogs: BinlogInstance, version: int, *backends: str, tablet: str = "t1") -> None:
    """Let backends report that they have all."""
    for backend in backends:
        binlogs.report_whole(tablet, backend, version)


def test_b07_a_backend_that_was_down_gets_its_cut_later(binlogs: BinlogInstance) -> None:
    well(binlogs, 9, "b1", "b2")
    expired(binlogs, 1, 5)
    binlogs.cut_expired()
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    binlogs.acknowledge_cuts("b1", t1_b1=5)

    binlogs.cut_expired(INTERVAL)

    well(binlogs, 9, "b1", "b2")
    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b2")) == ({}, {"t1.b2": 5})


def test_b08_each_tablet_is_granted_its_highest_version_once(binlogs: BinlogInstance) -> None:
    binlogs.place("t2", "b1", part="p2")
    well(binlogs, 20, "b1", "b2")
    well(binlogs, 20, "b1", tablet="t2")
    for seq, version in ((1, 4), (2, 9), (3, 7)):
        expired(binlogs, seq, version)
    expired(binlogs, 4, 3, "p2")

    binlogs.cut_expired()

    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b2")) == ({"t1.b1": 9, "t2.b1": 3}, {"t1.b2": 9})


def test_a_grant_is_repeated_until_it_is_acknowledged(binlogs: BinlogInstance) -> None:
    well(binlogs, 9, "b1", "b2")
    expired(binlogs, 1, 5)
    binlogs.cut_expired()

    assert binlogs.granted_cuts("b1") == binlogs.granted_cuts("b1") == {"t1.b1": 5}
    well(binlogs, 3, "b2")  # what it has lost since does not take back what was granted
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    assert binlogs.service.sender.acknowledge(binlogs.instance, "b1", [CutDone(uid="t1.b1", version=6)]).ignored == 1
    failed = CutDone(uid="t1.b1", version=5, outcome="failed", detail="EIO")
    binlogs.service.sender.acknowledge(binlogs.instance, "b1", [failed])
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    binlogs.acknowledge_cuts("b1", t1_b1=3)
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    binlogs.acknowledge_cuts("b1", t1_b1=5)
    binlogs.acknowledge_cuts("b1", t1_b1=-1)
    assert binlogs.granted_cuts("b1") == {}
    assert binlogs.replica("t1", "b1").acked == 5


def test_c14_a_copy_with_a_gap_limits_the_cut(binlogs: BinlogInstance) -> None:
    binlogs.place("t3", "b1", "b2", "b3", part="p3")
    well(binlogs, 20, "b1", "b2", tablet="t3")
    binlogs.report("b3", TabletReport(uid="t3.b3", ranges=((0, 14), (16, 20))))
    expired(binlogs, 1, 18, "p3")
    binlogs.cut_expired()

    assert {binlogs.granted_cuts(b)[f"t3.{b}"] for b in ("b1", "b2", "b3")} == {14}
    found, now = binlogs.service.replicas.tablet(binlogs.instance, "t3")
    least = lowest_needed_version(found, now)
    assert least is not None
    assert least[1] is not None
    assert (least[0], least[1].backend) == (15, "b3")
    assert [r.backend for r in binlogs.service.replicas.list_unhealthy(binlogs.instance)[0] if r.tablet == "t3"] == [
        "b3"
    ]

    well(binlogs, 20, "b3", tablet="t3")
    assert binlogs.granted_cuts("b1")["t3.b1"] == 18


def test_c16_the_last_good_copy_is_never_given_up(binlogs: BinlogInstance) -> None:
    well(binlogs, 9, "b1")
    binlogs.report("b2", TabletReport(uid="t1.b2", bad=True))
    expired(binlogs, 1, 5)
    for _ in range(3):
        binlogs.cut_expired(LIMIT)
        binlogs.report("b2", TabletReport(uid="t1.b2", bad=True))

    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b2")) == ({}, {})
    assert binlogs.replica("t1", "b1").full_copy == ""

    binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b1", "lost for ever")
    binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b2", "lost for ever")
    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b2")) == ({}, {})


def test_c17_no_cut_is_granted_without_a_fresh_report(binlogs: BinlogInstance) -> None:
    expired(binlogs, 1, 5)
    binlogs.cut_expired()
    assert binlogs.granted_cuts("b1") == {}

    well(binlogs, 9, "b1", "b2")
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    expired(binlogs, 2, 7)
    binlogs.cut_expired(FRESH)
    binlogs.cut_expired()
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    well(binlogs, 9, "b1")
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}  # the other one has not


def test_b29_one_dead_backend_stops_only_its_tablets(binlogs: BinlogInstance) -> None:
    binlogs.place("t2", "b1", "b3", part="p2")
    expired(binlogs, 1, 5)
    expired(binlogs, 2, 5, "p2")
    binlogs.cut_expired()
    well(binlogs, 9, "b1", "b3", tablet="t2")
    well(binlogs, 9, "b1")

    assert binlogs.granted_cuts("b1") == {"t2.b1": 5}
    assert binlogs.granted_cuts("b3") == {"t2.b3": 5}
    assert binlogs.log().watermark == 2

    well(binlogs, 9, "b2")  # it is back
    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b2")) == ({"t1.b1": 5, "t2.b1": 5}, {"t1.b2": 5})


def test_b29_a_dropped_table_is_not_frozen_by_a_dead_backend(binlogs: BinlogInstance) -> None:
    expired(binlogs, 1, 5)
    binlogs.cut_expired()

    assert binlogs.service.configs.drop(binlogs.instance, DB, "orders") == 2

    assert binlogs.granted_cuts("b1") == {"t1.b1": MAX_COMMIT_SEQ}
    binlogs.acknowledge_cuts("b1", t1_b1=MAX_COMMIT_SEQ)
    assert binlogs.granted_cuts("b1") == {}
    assert binlogs.granted_cuts("b2") == {"t1.b2": MAX_COMMIT_SEQ}


def test_b20_leftovers_of_a_dropped_table_are_cut_next(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(None)
    for seq in range(1, 6):
        binlogs.commit(seq, orders={"p1": seq}, users={"p9": seq})
    binlogs.commit(6, orders={"p1": 6})

    binlogs.service.configs.drop(binlogs.instance, DB, "orders")
    binlogs.cut_expired()

    assert binlogs.readable_seqs("users") == [1, 2, 3, 4, 5]
    assert binlogs.readable_seqs() == [1, 2, 3, 4, 5, 6]  # the database's own log still tells what happened
    assert binlogs.row_counts() == (6, 5, 5)
    assert binlogs.commit(7, orders={"p1": 7}).stored == 1
    binlogs.service.configs.drop(binlogs.instance, DB)
    binlogs.cut_expired()
    assert binlogs.row_counts() == (0, 0, 0)
    assert binlogs.commit(8, orders={"p1": 7}).disabled == 1


@pytest.mark.parametrize(
    "point", ["binlog.guarded", "binlog.written", "binlog.committed", "binlog.spread", "binlog.removed"]
)
def test_b23_the_next_round_finishes_a_crashed_one(binlogs: BinlogInstance, point: str) -> None:
    well(binlogs, 9, "b1", "b2")
    expired(binlogs, 1, 5)
    expired(binlogs, 2, 7)

    with installed(crash_at(point)), pytest.raises(Crash):
        binlogs.cut_expired()
    binlogs.cut_expired(INTERVAL)

    said = [t for e in binlogs.journal(Op.GC_BINLOG) for t in e.body["tombstones"]]
    assert [t["commitSeq"] for t in said] == [2]
    well(binlogs, 9, "b1", "b2")
    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b2")) == ({"t1.b1": 7}, {"t1.b2": 7})
    assert (binlogs.readable_seqs(), binlogs.row_counts()) == ([], (0, 0, 0))


def test_a_stop_blocks_new_grants_with_a_reason(binlogs: BinlogInstance) -> None:
    well(binlogs, 9, "b1", "b2")
    expired(binlogs, 1, 5)
    binlogs.cut_expired()
    binlogs.controls.put(ControlKind.STOP, ALL, "night")

    page = binlogs.pull_cuts("b1")

    assert (page.cuts, "night" in page.why) == ((), True)
    binlogs.controls.remove(ControlKind.STOP, ALL)
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}


def test_pages_continue_past_waiting_copies(binlogs: BinlogInstance) -> None:
    for n in range(5):
        binlogs.place(f"s{n}", "b1", "b2", part=f"q{n}")
        well(binlogs, 9, "b1", *(["b2"] if n % 2 else []), tablet=f"s{n}")
        expired(binlogs, n + 1, 5, f"q{n}")
    binlogs.cut_expired()

    seen, after = {}, ""
    for _ in range(4):
        page = binlogs.pull_cuts("b1", after, 2)
        seen |= {its.uid: its.version for its in page.cuts}
        after = page.next
        if not after:
            break

    assert seen == {"s1.b1": 5, "s3.b1": 5}


def test_a_given_up_copy_blocks_nothing_until_it_is_whole(binlogs: BinlogInstance) -> None:
    expired(binlogs, 1, 5)
    well(binlogs, 9, "b1", "b2")
    binlogs.pass_time(LIMIT + FRESH)
    well(binlogs, 9, "b1")
    report = binlogs.cut_expired(INTERVAL)

    assert (report.full_copy, binlogs.replica("t1", "b2").full_copy) == (1, "hold limit")
    assert binlogs.granted_cuts("b1") == {"t1.b1": 5}
    binlogs.report("b2", TabletReport(uid="t1.b2", ranges=((0, 4),)))  # it lacks what may be gone
    assert binlogs.replica("t1", "b2").full_copy == "hold limit"
    well(binlogs, 9, "b2")
    assert binlogs.replica("t1", "b2").full_copy == ""


def test_a_new_copy_blocks_until_it_reports(binlogs: BinlogInstance) -> None:
    well(binlogs, 9, "b1", "b2")
    expired(binlogs, 1, 5)
    binlogs.cut_expired()
    copies = tuple(Copy(backend=b, uid=f"t1.{b}") for b in ("b1", "b3"))
    moved = Placement(db=DB, table="orders", tablets=(Tablet(tablet="t1", part="p1", copies=copies),))

    placed = binlogs.service.placements.place(binlogs.instance, moved)

    assert (placed.added, placed.kept, placed.removed) == (1, 1, 1)
    assert binlogs.granted_cuts("b1") == {}
    well(binlogs, 9, "b3")
    assert (binlogs.granted_cuts("b1"), binlogs.granted_cuts("b3")) == ({"t1.b1": 5}, {"t1.b3": 5})


def test_a_tablet_does_not_lose_its_last_copy_by_mistake(binlogs: BinlogInstance) -> None:
    other = Tablet(tablet="t9", part="p1", copies=(Copy(backend="b1", uid="u9"),))
    with pytest.raises(BadInput, match="tablet t1 of table orders is missing"):
        binlogs.service.placements.place(binlogs.instance, Placement(db=DB, table="orders", tablets=(other,)))
    none = Tablet(tablet="t1", part="p1", copies=())
    with pytest.raises(BadInput, match="has no replica"):
        binlogs.service.placements.place(binlogs.instance, Placement(db=DB, table="orders", tablets=(none,)))

    with pytest.raises(LastCopy, match="no replica of tablet t1 on another backend than b2 is healthy"):
        binlogs.service.placements.decommission(binlogs.instance, "b2")  # nobody has heard of b1's
    well(binlogs, 9, "b1", "b2")
    assert binlogs.service.placements.decommission(binlogs.instance, "b2") == 1
    with pytest.raises(LastCopy, match="no replica of tablet t1"):
        binlogs.service.placements.decommission(binlogs.instance, "b1")
    dropped = Placement(db=DB, table="orders", dropped=("p1",))
    assert binlogs.service.placements.place(binlogs.instance, dropped).dropped == 1
    assert binlogs.service.placements.decommission(binlogs.instance, "b1") == 1
