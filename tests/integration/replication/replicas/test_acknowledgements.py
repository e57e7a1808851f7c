"""A cut is granted again until its backend acknowledges that the versions are gone."""

from sexton.replication.binlog.model import MOST, CutDone
from tests.integration.replication.world import DB, SHOP, World


def old(world: World) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return world.now - 60_000


def test_an_unknown_copy_is_granted_again_after_a_drop(world: World) -> None:
    world.keep(10)
    for tablet, part in (("t1", "p1"), ("t2", "p2")):
        world.place(tablet, "b1", part=part)
        world.well(tablet, "b1", 9)
    world.commit(1, old(world), orders={"p1": 3, "p2": 3})
    world.look()
    world.cuts("b1")
    world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=-1, outcome="unknown")])
    world.b.configs.drop(SHOP, DB, "orders")

    world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t2.b1", version=3)])

    assert world.cuts("b1") == {"t1.b1": MOST, "t2.b1": MOST}


def test_a_failed_cut_is_granted_again(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1")
    world.well("t1", "b1", 9)
    world.commit(1, old(world), orders={"p1": 3})
    world.look()
    world.cuts("b1")

    world.b.sender.acknowledge(SHOP, "b1", [CutDone(uid="t1.b1", version=3, outcome="failed", detail="EIO")])

    assert world.cuts("b1") == {"t1.b1": 3}


def test_a_manual_pull_keeps_the_backend_in_rounds(world: World) -> None:
    world.keep(10)
    world.place("t1", "b1")
    world.commit(1, old(world), orders={"p1": 3})
    world.look()
    world.b.sender.page(SHOP, "b1", queue=True)
    world.b.sender.page(SHOP, "b1")

    assert list(world.b.sender.waiting(SHOP, "", 10)) == ["b1"]
