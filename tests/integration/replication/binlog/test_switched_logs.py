"""A log that is switched off and on again loses no record silently, and its leftovers are deleted."""

import pytest

from sexton.replication.binlog.errors import RecordsTrimmed
from sexton.replication.journal.replaying import FollowerState as Follower
from tests.integration.replication.world import DB, INTERVAL, SHOP, World


def old(world: World) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return world.now - 60_000


def test_records_skipped_while_a_log_is_off_count_as_trimmed(world: World) -> None:
    world.keep(None)
    for seq in range(1, 11):
        world.commit(seq, orders={"p1": seq})
    world.b.consumers.register(SHOP, "sync", DB, "orders", 5)
    world.keep(enabled=False)
    assert world.commit(11, orders={"p1": 11}).disabled == 1
    world.keep(None)
    world.commit(12, orders={"p1": 12})

    for table in ("", "orders"):
        with pytest.raises(RecordsTrimmed, match="first available is 12"):
            world.b.records.read(SHOP, DB, table, 5)
    with pytest.raises(RecordsTrimmed):
        world.b.consumers.register(SHOP, "late", DB, "orders", 0)


def test_a_log_switched_off_without_a_commit_keeps_all(world: World) -> None:
    world.keep(10)
    for seq in range(1, 11):
        world.commit(seq, tables=["orders"])
    world.keep(10, enabled=False)
    world.keep(10, from_seq=10)

    assert world.seqs(after=5) == [6, 7, 8, 9, 10]


def test_the_start_of_a_log_refuses_no_record_in_transit(world: World) -> None:
    world.keep(None)
    world.commit(1, orders={"p1": 1})
    world.keep(None, from_seq=10)  # said again, as an owner does at its start
    world.keep(enabled=False)
    world.keep(None, table="orders")
    world.keep(None, table="users", from_seq=20)

    assert [world.commit(seq, orders={"p1": seq}, users={"p2": seq}).stored for seq in (5, 15, 25)] == [1, 1, 1]
    assert (world.seqs("orders"), world.seqs("users")) == ([1, 5, 15, 25], [25])


@pytest.mark.parametrize("then", ["off", "off and on", "the database's"])
def test_leftovers_of_a_table_log_are_cut_on_backends(world: World, then: str) -> None:
    world.keep(enabled=False)
    world.keep(10, table="orders")
    world.place("t1", "b1")
    world.commit(1, orders={"p1": 3})
    if then == "the database's":
        world.keep(10)
    else:
        world.keep(10, table="orders", enabled=False)
    if then == "off and on":
        world.keep(10, table="orders")

    for _ in range(3):
        world.later(INTERVAL)
        world.look()
    world.well("t1", "b1", 100)

    assert (world.stored(), world.cuts("b1")) == ((0, 0, 0), {"t1.b1": 3})


def test_followers_match_the_leader_of_a_switched_log(world: World) -> None:
    world.keep(enabled=False)
    world.keep(None, table="orders")
    followers = [Follower(), Follower()]
    for seq in (1, 2, 3):
        world.commit(seq, orders={"p1": seq})
    world.keep(None, table="orders", enabled=False)
    world.commit(4, orders={"p1": 4})
    world.keep(None, table="orders")
    for follower in followers:
        for seq in (1, 2, 3, 4):
            follower.record(DB, seq, ["orders"])
    for entry in world.journal():
        followers[0].apply(entry)
    followers[1].begin(world.b.replicas.snapshot(SHOP))

    assert [f.databases[DB].log("orders") for f in followers] == [world.seqs("orders")] * 2 == [[]] * 2
