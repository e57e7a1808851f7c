"""A placement adds and replaces copies, and never brings back a dropped table."""

import pytest
from sqlalchemy import func, select

from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MAX_COMMIT_SEQ
from sexton.replication.journal.replaying import FollowerState as Follower
from sexton.replication.replicas.model import Copy, Placement, Tablet, TabletReport
from tests.integration.replication.binlog_instance import DB, SHOP, BinlogInstance


def count(binlogs: BinlogInstance, table: str) -> int:
    with binlogs.db.read() as c:
        return int(c.execute(select(func.count()).select_from(getattr(binlogs.db.t, table))).scalar_one())


def test_a_dropped_table_is_not_placed_again(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1")
    binlogs.service.configs.drop(SHOP, DB, "orders")
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
    binlogs.service.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))

    for entry in binlogs.journal():
        follower.apply(entry)

    assert (binlogs.replica("t1", "b1").bad, follower.unhealthy()) == (False, {})


def test_a_uid_that_belongs_to_another_copy_is_refused(binlogs: BinlogInstance) -> None:
    binlogs.place("t1", "b1")
    copies = (Copy(backend="b1", uid="t1.b1"), Copy(backend="b2", uid="new"))
    its = Tablet(tablet="t2", part="p2", copies=copies)

    with pytest.raises(BadInput, match="a uid belongs to another replica"):
        binlogs.service.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))

    assert count(binlogs, "replica") == 1


def test_a_copy_moves_to_another_backend_under_its_uid(binlogs: BinlogInstance) -> None:
    def place(*backends: str) -> tuple[int, int, int]:
        its = Tablet(tablet="t1", part="p1", copies=tuple(Copy(backend=b, uid="u") for b in backends))
        placed = binlogs.service.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))
        return placed.added, placed.kept, placed.removed

    assert [place("b1", "b2"), place("b2", "b3")] == [(2, 0, 0), (1, 1, 1)]
    assert [r.backend for r in binlogs.service.replicas.tablet(SHOP, "t1")[0]] == ["b2", "b3"]
