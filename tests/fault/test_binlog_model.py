"""In random histories with crashes no reader lacks a record, no replica a version, no follower an entry."""

import pytest

from sexton.database.engine import Database
from tests.fault.binlog_invariants import check_followers, check_invariants, settle
from tests.fault.binlog_world import BinlogWorld
from tests.servers.postgres import new_database

STEPS = 120


def play(url: str, seed: int) -> None:
    """Play one history, and check the invariants after each step."""
    db = Database.open(url)
    try:
        world = BinlogWorld(db, seed)
        steps = world.steps()
        for n in range(STEPS):
            world.random.choice(steps)()
            check_invariants(world)
            if n % 20 == 19:
                check_followers(world)
        settle(world)
        check_invariants(world)
        check_followers(world)
    finally:
        db.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_history_loses_nothing_and_leaves_nothing(seed: int) -> None:
    play(new_database(), seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_300))
def test_many_histories_lose_nothing_and_leave_nothing(seed: int) -> None:
    play(new_database(), seed)
