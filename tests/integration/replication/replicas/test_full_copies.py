"""A copy that was given up counts again as soon as it has all versions that the other copies have.

A version that a backend made up makes no other copy wait.
"""

import pytest

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.marks.lease import Lease
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.file_lists import Span
from sexton.replication.binlog.model import BinlogSettings
from sexton.replication.replicas.model import Copy, Placement, ReplicaSettings, Tablet
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from sexton.replication.replicas.version_graph import MAX_VERSION
from tests.integration.replication.binlog_instance import DB, INTERVAL, REPLICA_SETTINGS, SHOP, STEP, BinlogInstance

HOLD = 3_600

TOKEN = WriteToken(batch=0, round=0, lease=Lease(instance=SHOP, job="recycle", owner="run", epoch=1), attempt=1)


def test_a_given_up_copy_counts_again_once_it_is_whole(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1", "b2")
    binlogs.report_whole("t1", "b1", 100)
    binlogs.report_whole("t1", "b2", 5)
    binlogs.service.replicas.full_copy(SHOP, "t1", "b2", "will be copied")

    binlogs.report_whole("t1", "b2", 5)
    assert binlogs.replica("t1", "b2").full_copy == "will be copied"
    binlogs.report_whole("t1", "b2", 100)
    assert binlogs.replica("t1", "b2").full_copy == ""


def test_a_given_up_copy_needs_versions_claimed_meanwhile(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1", "b2")
    binlogs.report_whole("t1", "b1", 50)
    binlogs.report_whole("t1", "b2", 5)
    binlogs.service.replicas.full_copy(SHOP, "t1", "b2", "away")
    binlogs.report_whole("t1", "b1", 100)
    with deciding(binlogs.db, SHOP) as c:
        keeper, candidates = ReplicaKeeper(binlogs.db), [Candidate(Ref("compacted", "r1"), versions=("t1", 80))]
        assert keeper.blocking(c, TOKEN, candidates, Span(0), binlogs.db.now(c), None) == {}
        keeper.on_claimed(c, TOKEN, candidates)
    moved = tuple(Copy(backend=b, uid=f"t1.{b}") for b in ("b2", "b3"))  # b1's copy is gone, what it let go is known
    its = Tablet(tablet="t1", part="p1", copies=moved)
    binlogs.service.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))

    binlogs.report_whole("t1", "b2", 50)
    assert binlogs.replica("t1", "b2").full_copy == "away"
    binlogs.report_whole("t1", "b2", 80)
    assert (binlogs.replica("t1", "b2").full_copy, binlogs.replica("t1", "b3").gone) == ("", 80)


def away_until_given_up(binlogs: BinlogInstance, version_on_b2: int) -> None:
    """Let b1 be silent until its copy is given up, while b2 reports a version."""
    binlogs.place("t1", "b1", "b2")
    for backend in ("b1", "b2"):
        binlogs.report_whole("t1", backend, 100)
    for _ in range((HOLD + REPLICA_SETTINGS.freshness_seconds) // INTERVAL + 1):
        binlogs.later(INTERVAL)
        binlogs.report_whole("t1", "b2", version_on_b2)
        binlogs.cut_expired()
    assert binlogs.replica("t1", "b1").full_copy == BY_LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [True, False], ids=["committed", "unknown"])
@pytest.mark.parametrize("made_up", [151, MAX_VERSION])
def test_a_made_up_version_makes_no_other_copy_wait(db: Database, recorded: bool, made_up: int) -> None:
    settings = {"hold_limit_seconds": HOLD}
    binlogs = BinlogInstance(db, BinlogSettings(**settings), ReplicaSettings(**settings))
    binlogs.configure_log(60)
    if recorded:
        binlogs.commit(1, orders={"p1": 100})
    away_until_given_up(binlogs, made_up)

    binlogs.report_whole("t1", "b1", 100)

    assert binlogs.replica("t1", "b1").full_copy == ""
    binlogs.commit(2, orders={"p1": 150})
    binlogs.pass_time(STEP)
    binlogs.report_whole("t1", "b1", 120)
    binlogs.report_whole("t1", "b2", made_up)
    assert binlogs.granted_cuts("b2") == {"t1.b2": 120}


@pytest.mark.parametrize(("committed", "until"), [(100, 100), (None, 6)])
def test_an_order_waits_for_no_made_up_version(binlogs: BinlogInstance, committed: int | None, until: int) -> None:
    binlogs.configure_log()
    binlogs.place("t1", "b1", "b2")
    if committed is not None:
        binlogs.commit(1, orders={"p1": committed})
    binlogs.report_whole("t1", "b1", 5)
    binlogs.report_whole("t1", "b2", MAX_VERSION)

    given_up = binlogs.service.replicas.full_copy(SHOP, "t1", "b1", "will be copied")

    assert given_up == binlogs.replica("t1", "b1")
    assert given_up.full_copy_until == until
    binlogs.report_whole("t1", "b1", 5)
    assert binlogs.replica("t1", "b1").full_copy == "will be copied"
    binlogs.report_whole("t1", "b1", until)
    assert binlogs.replica("t1", "b1").full_copy == ""


def test_a_made_up_version_of_a_copy_is_corrected(binlogs: BinlogInstance) -> None:
    binlogs.configure_log()
    binlogs.place("t1", "b1", "b2")
    binlogs.commit(1, orders={"p1": 100})
    for version in (MAX_VERSION, 100):
        binlogs.report_whole("t1", "b2", version)
    made_up = binlogs.replica("t1", "b2")
    binlogs.service.replicas.full_copy(SHOP, "t1", "b2", "reported a version that never was")

    binlogs.report_whole("t1", "b2", 100)

    its = binlogs.replica("t1", "b2")
    assert (made_up.continuous_version, made_up.gap_since is not None) == (MAX_VERSION, True)
    assert (its.continuous_version, its.needs, its.gap_since, its.failed, its.full_copy) == (100, 101, None, -1, "")
