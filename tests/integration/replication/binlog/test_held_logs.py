"""A consumer blocks the cut of each log that it reads, and of no other."""

from tests.integration.replication.world import DB, SHOP, World

DAY = 86_400


def old(world: World) -> int:
    """Return a time that a TTL of ten seconds has passed."""
    return world.now - 60_000


def test_a_consumer_of_two_logs_blocks_both(world: World) -> None:
    world.keep(10)
    for seq in range(1, 21):
        world.commit(seq, old(world), orders={"p1": seq}, users={"p2": seq})
    for table, has in (("orders", 2), ("users", 15)):
        world.b.consumers.register(SHOP, "sync", DB, table, 0)
        world.b.consumers.acknowledge(SHOP, "sync", DB, table, has)

    world.look()

    assert (world.log().watermark, world.log().held) == (2, {"sync": 2})


def test_a_log_that_is_off_is_not_blocked(world: World) -> None:
    world.keep(10)
    world.commit(1, old(world))
    world.b.consumers.register(SHOP, "c", DB, "", 0)
    world.look()
    assert world.log().held == {"c": 0}

    world.keep(10, enabled=False)

    assert (world.log().held, world.log().held_since) == ({}, None)


def test_a_table_without_records_blocks_no_other(world: World) -> None:
    world.keep(10)
    for seq in range(1, 6):
        world.commit(seq, old(world), tables=["busy"])
    world.keep(10, table="new")
    world.b.consumers.register(SHOP, "r", DB, "new")

    world.look()

    assert world.log().watermark == 5
