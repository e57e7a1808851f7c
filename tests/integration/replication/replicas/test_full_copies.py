"""A copy that an operator gave up counts again as soon as it has all versions that the other copies have."""

from sexton.database.guard import deciding
from sexton.marks.lease import Lease
from sexton.marks.model import Candidate, Ref, WriteToken
from sexton.marks.sql.file_lists import Span
from sexton.replication.replicas.model import Copy, Placement, Tablet
from sexton.replication.replicas.sql.keeper import ReplicaKeeper
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance

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
