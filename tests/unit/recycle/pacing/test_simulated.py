"""The pacer finds the limit of a simulated store, on a virtual clock."""

import pytest

from sexton.recycle.pacing import policy
from sexton.recycle.pacing.model import Shared
from tests.unit.recycle.pacing.pace_world import Store, World

LIMIT = 3_500
FIVE_MINUTES = 300.0


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("burst_seconds", [0.3, 1.0, 2.0])
def test_pacer_uses_90_percent_of_an_unknown_limit(workers: int, burst_seconds: float) -> None:
    world = World(Store(LIMIT, burst_seconds), workers)

    world.run(FIVE_MINUTES)

    assert world.store.rate(0, FIVE_MINUTES) >= 0.9 * LIMIT
    assert world.store.rate(60, FIVE_MINUTES) >= 0.9 * LIMIT
    assert world.store.throttled() < 0.01


def test_ten_places_have_ten_times_the_rate_of_one() -> None:
    one, ten = World(Store(LIMIT)), World(Store(LIMIT), folders=10)

    one.run(90)
    ten.run(90)

    assert ten.store.rate(0, 90) >= 9.5 * one.store.rate(0, 90)
    assert ten.store.throttled() < 0.01


@pytest.mark.parametrize("limit", [100, 700, 20_000])
def test_pacer_finds_other_limits(limit: int) -> None:
    world = World(Store(limit, burst_seconds=10.0 if limit == 100 else 1.0))

    world.run(FIVE_MINUTES)

    assert 0.85 * limit <= world.store.rate(60, FIVE_MINUTES) <= 1.05 * limit
    assert world.store.throttled(60) < 0.03


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("begin", [0.0, 120.0])
def test_r39_rate_falls_in_an_outage_and_recovers(workers: int, begin: float) -> None:
    world = World(Store(LIMIT, storms=[(begin, begin + 30)]), workers)

    world.run(begin + 30)
    fallen = [row.keys_per_second for row in world.table.shared.values()]
    world.run(begin + 480)

    during = [outcome for at, outcome, _ in world.store.requests if begin <= at < begin + 30]
    assert max(fallen) < 0.1 * LIMIT
    assert len(during) <= 10 * workers + 10
    assert world.store.rate(begin + 60, begin + 480) >= 0.9 * LIMIT
    assert world.store.throttled() < 0.02


def test_pacer_follows_a_changed_limit() -> None:
    world = World(Store(LIMIT))
    world.run(60)

    world.store.limit = 2 * LIMIT
    world.run(420)
    world.store.limit = LIMIT / 5
    world.run(540)

    assert world.store.rate(300, 420) >= 0.85 * 2 * LIMIT
    assert 0.8 * LIMIT / 5 <= world.store.rate(430, 540) <= 1.1 * LIMIT / 5
    assert sum(outcome != "done" for at, outcome, _ in world.store.requests if at >= 420) < 25


def test_slow_store_gets_smaller_requests_until_none_is_lost() -> None:
    world = World(Store(1e9, seconds=lambda under_way, keys: under_way * keys * 0.01))

    world.run(FIVE_MINUTES)

    lost = [at for at, outcome, _ in world.store.requests if outcome == "lost"]
    # What was sent before the first was lost: the first window, and what a slow answer makes of it.
    assert len(lost) <= 1.25 * policy.FIRST_REQUESTS
    assert max(lost, default=0.0) < 30
    assert world.store.rate(60, FIVE_MINUTES) >= 80


def test_quick_store_gets_more_at_once_and_slow_store_less() -> None:
    store = Store(1e9, seconds=lambda under_way, keys: 0.5)
    world = World(store)
    world.run(60)
    quick = store.rate(30, 60)

    store.seconds = lambda under_way, keys: under_way * keys / 800
    world.run(FIVE_MINUTES)

    assert quick >= 20_000
    assert store.rate(120, FIVE_MINUTES) >= 650
    assert sum(outcome == "lost" for at, outcome, _ in store.requests if at > 90) == 0


def test_workers_without_shared_rates_use_their_own() -> None:
    world = World(Store(LIMIT), workers=3)
    world.run(60)

    world.table.away = True
    world.run(FIVE_MINUTES)

    assert world.store.rate(60, FIVE_MINUTES) >= 0.7 * LIMIT
    assert world.store.throttled(60) < 0.03


def test_new_worker_begins_with_its_share_of_the_rate() -> None:
    world = World(Store(LIMIT), workers=1)
    world.run(120)
    [row] = world.table.shared.values()

    later = World(Store(LIMIT), workers=1)
    later.table.shared = dict(world.table.shared)
    later.run(2)

    assert abs(row.ceiling - LIMIT) < 0.15 * LIMIT
    assert later.store.throttled() == 0
    assert later.store.rate(0, 2) <= 1.3 * LIMIT


def test_workers_divide_the_known_rate() -> None:
    world = World(Store(1e9), workers=3)
    place = world.pacers[0].places("shop", "cold", ["0/k"])[0]
    world.table.shared[place] = Shared(keys_per_second=3_000, ceiling=3_500, updated_at=0)

    world.run(20)

    assert 0.85 * 3_000 <= world.store.rate(5, 20) <= 1.2 * 3_000


def test_a_cap_is_shared_and_effective_within_5_s() -> None:
    world = World(Store(LIMIT), workers=3)
    world.run(60)

    world.table.caps["shop", "cold"] = 600
    world.run(180)
    world.table.caps.clear()
    world.run(260)

    assert 500 <= world.store.rate(65, 180) <= 640
    assert world.store.rate(190, 260) >= 0.8 * LIMIT
