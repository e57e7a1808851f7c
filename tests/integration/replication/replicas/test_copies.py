"""Copies are placed, replaced, given up and whole again; a cut is granted until its backend acknowledges it.

A version that a backend made up makes no other copy wait.
"""

import pytest
from sqlalchemy import func, select

from sexton.database.engine import Database
from sexton.database.guard import deciding
from sexton.kernel.errors import BadInput
from sexton.marks.model import Candidate, Lease, Ref, Span, WriteToken
from sexton.replication.agent.model import MAX_VERSION, CutDone
from sexton.replication.binlog.model import MAX_COMMIT_SEQ, BinlogSettings
from sexton.replication.journal.replaying import FollowerState as Follower
from sexton.replication.replicas.model import Copy, Placement, ReplicaSettings, Tablet, TabletReport
from sexton.replication.replicas.policy import BY_LIMIT
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from tests.integration.replication.binlog_instance import (
    DB,
    INTERVAL,
    REPLICA_SETTINGS,
    STEP,
    BinlogInstance,
    new_instance,
)


def count(binlogs: BinlogInstance, table: str) -> int:
    with binlogs.db.read() as c:
        t = getattr(binlogs.db.t, table)
        rows = select(func.count()).select_from(t).where(t.c.instance == binlogs.instance)
        return int(c.execute(rows).scalar_one())


def test_a_dropped_table_is_not_placed_again(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1")
    binlogs.service.configs.drop(binlogs.instance, DB, "orders")
    binlogs.granted_cuts("b1")
    binlogs.acknowledge_cuts("b1", t1_b1=MAX_COMMIT_SEQ)
    assert count(binlogs, "replica") == 0

    with pytest.raises(BadInput, match="is dropped"):
        binlogs.place("t1", "b1")


def test_a_replacement_of_a_bad_copy_is_good_to_followers(binlogs: BinlogInstance) -> None:
    follower = Follower()
    follower.place("t1", "b1")
    binlogs.place("t1", "b1", "b2")
    binlogs.report("b1", TabletReport(uid="t1.b1", bad=True))
    copies = (Copy(backend="b1", uid="new"), Copy(backend="b2", uid="t1.b2"))
    its = Tablet(tablet="t1", part="p1", copies=copies)
    binlogs.service.placements.place(binlogs.instance, Placement(db=DB, table="orders", tablets=(its,)))

    for entry in binlogs.journal():
        follower.apply(entry)

    assert (binlogs.replica("t1", "b1").bad, follower.unhealthy()) == (False, {})


def test_a_copy_moves_under_a_uid_that_no_other_may_have(binlogs: BinlogInstance) -> None:
    def place(*backends: str, tablet: str = "t1") -> tuple[int, int, int]:
        its = Tablet(tablet=tablet, part=f"p-{tablet}", copies=tuple(Copy(backend=b, uid="u") for b in backends))
        placed = binlogs.service.placements.place(binlogs.instance, Placement(db=DB, table="orders", tablets=(its,)))
        return placed.added, placed.kept, placed.removed

    assert [place("b1", "b2"), place("b2", "b3")] == [(2, 0, 0), (1, 1, 1)]
    with pytest.raises(BadInput, match="a uid belongs to another replica"):
        place("b3", tablet="t2")
    assert [r.backend for r in binlogs.service.replicas.tablet(binlogs.instance, "t1")[0]] == ["b2", "b3"]
    assert count(binlogs, "replica") == 2


HOLD = 1_200


def test_a_given_up_copy_needs_versions_claimed_meanwhile(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1", "b2")
    binlogs.report_whole("t1", "b1", 50)
    binlogs.report_whole("t1", "b2", 5)
    binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b2", "away")
    binlogs.report_whole("t1", "b1", 100)
    lease = Lease(instance=binlogs.instance, job="recycle", owner="run", epoch=1)
    token = WriteToken(batch=0, round=0, lease=lease, attempt=1)
    with deciding(binlogs.db, binlogs.instance) as c:
        keeper, candidates = ReplicaKeeper(binlogs.db), [Candidate(Ref("compacted", "r1"), versions=("t1", 80))]
        assert keeper.blocking(c, token, candidates, Span(0), binlogs.db.now(c), None) == {}
        keeper.on_claimed(c, token, candidates)
    moved = tuple(Copy(backend=b, uid=f"t1.{b}") for b in ("b2", "b3"))  # b1's copy is gone, what it let go is known
    its = Tablet(tablet="t1", part="p1", copies=moved)
    binlogs.service.placements.place(binlogs.instance, Placement(db=DB, table="orders", tablets=(its,)))

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


@pytest.mark.parametrize("recorded", [True, False], ids=["committed", "unknown"])
@pytest.mark.parametrize("made_up", [151, MAX_VERSION])
def test_a_made_up_version_makes_no_other_copy_wait(db: Database, recorded: bool, made_up: int) -> None:
    settings = {"hold_limit_seconds": HOLD}
    binlogs = new_instance(db, BinlogSettings(**settings), ReplicaSettings(**settings))
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

    given_up = binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b1", "will be copied")

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
    binlogs.service.replicas.full_copy(binlogs.instance, "t1", "b2", "reported a version that never was")

    binlogs.report_whole("t1", "b2", 100)

    its = binlogs.replica("t1", "b2")
    assert (made_up.continuous_version, made_up.gap_since is not None) == (MAX_VERSION, True)
    assert (its.continuous_version, its.needs, its.gap_since, its.failed, its.full_copy) == (100, 101, None, -1, "")


def old(binlogs: BinlogInstance) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return binlogs.now - 60_000


def test_an_unknown_copy_is_granted_again_after_a_drop(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    for tablet, part in (("t1", "p1"), ("t2", "p2")):
        binlogs.place(tablet, "b1", part=part)
        binlogs.report_whole(tablet, "b1", 9)
    binlogs.commit(1, old(binlogs), orders={"p1": 3, "p2": 3})
    binlogs.cut_expired()
    binlogs.granted_cuts("b1")
    binlogs.service.sender.acknowledge(binlogs.instance, "b1", [CutDone(uid="t1.b1", version=-1, outcome="unknown")])
    binlogs.service.configs.drop(binlogs.instance, DB, "orders")

    binlogs.service.sender.acknowledge(binlogs.instance, "b1", [CutDone(uid="t2.b1", version=3)])

    assert binlogs.granted_cuts("b1") == {"t1.b1": MAX_COMMIT_SEQ, "t2.b1": MAX_COMMIT_SEQ}


def test_a_manual_pull_keeps_the_backend_in_rounds(binlogs: BinlogInstance) -> None:
    binlogs.configure_log(10)
    binlogs.place("t1", "b1")
    binlogs.commit(1, old(binlogs), orders={"p1": 3})
    binlogs.cut_expired()
    binlogs.service.sender.page(binlogs.instance, "b1", queue=True)
    binlogs.service.sender.page(binlogs.instance, "b1")

    assert list(binlogs.service.sender.waiting(binlogs.instance, "", 10)) == ["b1"]
