"""A cut of very much waits for a person, and takes what that person saw, also where the log goes on meanwhile."""

import pytest

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.replication.binlog.model import BinlogSettings
from tests.integration.replication.world import DB, INTERVAL, SHOP, World

DAY = 86_400


@pytest.fixture
def waits(db: Database) -> World:
    """A log of which records 1 to 5 wait for approval, and the next expires within the interval."""
    world = World(db, BinlogSettings(free_records=3))
    world.keep(DAY)
    for seq in range(1, 6):
        world.commit(seq, world.now - 2 * DAY * 1000)
    world.commit(6, world.now - DAY * 1000 + 60_000)
    world.commit(7)
    world.look()
    assert world.log().awaiting_seq == 5
    return world


def test_what_expires_after_the_approval_does_not_make_it_wait_again(waits: World) -> None:
    waits.b.configs.approve(SHOP, DB)
    waits.later(INTERVAL)
    waits.look()

    assert (waits.log().watermark, waits.log().awaiting_seq, waits.seqs()) == (5, None, [6, 7])

    waits.later(INTERVAL)
    waits.look()
    assert (waits.log().watermark, waits.seqs()) == (6, [7])


def test_a_consumer_holds_what_is_approved_and_the_approval_stands(waits: World) -> None:
    waits.b.consumers.register(SHOP, "lisbon", DB, after=3)
    waits.b.configs.approve(SHOP, DB)
    waits.later(INTERVAL)
    waits.look()
    held = waits.log()
    waits.b.consumers.acknowledge(SHOP, "lisbon", DB, "", 7)
    waits.later(INTERVAL)
    waits.look()

    assert (held.watermark, held.held, held.awaiting_seq) == (3, {"lisbon": 3}, None)
    assert waits.log().watermark >= 5


def test_only_what_was_seen_is_approved(waits: World) -> None:
    waits.later(INTERVAL)
    waits.look()

    approved = waits.b.configs.approve(SHOP, DB, upto=5)

    assert (approved.approved, approved.awaiting_seq) == (5, None)
    with pytest.raises(BadInput, match="waits for approval"):
        waits.b.configs.approve(SHOP, DB)
