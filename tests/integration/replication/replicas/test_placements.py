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
