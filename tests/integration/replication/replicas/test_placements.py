"""A placement adds and replaces copies, and never brings back a dropped table."""

import pytest
from sqlalchemy import func, select

from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import MOST
from sexton.replication.journal.replaying import FollowerState as Follower
from sexton.replication.replicas.model import Copy, Placement, Tablet, TabletReport
from tests.integration.replication.world import DB, SHOP, World


def count(world: World, table: str) -> int:
    with world.db.read() as c:
        return int(c.execute(select(func.count()).select_from(getattr(world.db.t, table))).scalar_one())


def test_a_dropped_table_is_not_placed_again(world: World) -> None:
    world.place("t1", "b1")
    world.b.configs.drop(SHOP, DB, "orders")
    world.cuts("b1")
    world.done("b1", t1_b1=MOST)
    assert count(world, "replica") == 0

    with pytest.raises(BadInput, match="is dropped"):
        world.place("t1", "b1")


def test_a_replacement_of_a_bad_copy_is_good_to_followers(world: World) -> None:
    follower = Follower()
    follower.place("t1", "b1")
    world.place("t1", "b1", "b2")
    world.report("b1", TabletReport(uid="t1.b1", bad=True))
    copies = (Copy(backend="b1", uid="new"), Copy(backend="b2", uid="t1.b2"))
    its = Tablet(tablet="t1", part="p1", copies=copies)
    world.b.placements.place(SHOP, Placement(db=DB, table="orders", tablets=(its,)))

    for entry in world.journal():
        follower.apply(entry)

    assert (world.replica("t1", "b1").bad, follower.unwell()) == (False, {})
