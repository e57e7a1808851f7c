"""Topics under random histories with crashes between all steps: no acknowledged entry is lost, and floors rise.

A history consists of writes, flushes, late reports, idle marks, crashes, openings, fail-overs, moves, drops, undrops,
restored manifests, and purges that die, over the embedded log. It follows from its seed, which a failure
reports. Where the owner's map names the leaders (every other seed), the other node reports and opens regions that are
not its own.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.fault.wal_world import TOPICS, UNDROP_SECONDS, Entries, Region, World
from tests.servers.postgres import new_database
from tests.support.crashes import OF_WAL

STEPS = 100
Step = tuple[int, str, Callable[[], None]]


def steps(world: World, chance: random.Random) -> Iterator[Step]:
    """Yield the steps that may happen next: weight, name, action."""
    for name, region in world.regions.items():
        if region.dropped_at is not None:
            if world.clock < region.dropped_at + UNDROP_SECONDS:
                yield 2, f"undrop {name}", lambda region=region: world.undrop(region)
            continue
        yield 1, f"drop {name}", lambda region=region: world.drop(region)
        yield 1, f"restore the manifest of {name}", lambda region=region: world.restore(region)
        if region.late:
            yield 4, f"late report of {name}", lambda region=region: world.receive(region, *region.late.pop(0))
        yield 1, f"fail {name} over", lambda region=region: world.fail_over(region)
        if world.names_nodes:
            yield 2, f"intrude on {name}", lambda region=region: world.intrude(region)
        if not region.open:
            if region.pins:
                yield 8, f"read {name}", lambda region=region: world.read(region)
            else:
                yield 8, f"begin to open {name}", lambda region=region: world.begin(region)
            continue
        yield 2, f"crash {name}", lambda region=region: world.crash(region)
        yield 8, f"append to {name}", lambda region=region: world.append(region)
        yield 4, f"flush {name}", lambda region=region: world.flush(region)
        yield 5, f"report of {name}", lambda region=region: world.receive(region, region.node, *world.reports(region))
        yield 4, f"report of {name}, under way", lambda region=region: send_later(world, region)
        yield 1, f"impossible report of {name}", lambda region=region: world.report_impossible(region)
        if region.under_way:
            yield 8, f"acknowledge {name}", lambda region=region: world.acknowledge(region)
        else:
            dies = chance.random() < 0.3
            move = f"move {name}{', half' if dies else ''}"
            yield 1, move, lambda region=region, dies=dies: world.move(region, dies=dies)
    for topic in TOPICS:
        dies_at = chance.choice(["", "", *sorted(OF_WAL)])
        yield 6, f"purge {topic}, dies at {dies_at}", lambda t=topic, d=dies_at: world.purge(t, d)
        yield 3, f"purge {topic}, meanwhile", lambda t=topic: world.purge(t, meanwhile=lambda: another(world, chance))
        yield 1, f"map of {topic}", lambda t=topic: world.send_map(t)
    seconds = chance.choice([1, 100, 400, 4_000])
    yield 3, f"wait {seconds} s", lambda: world.wait(seconds)


def send_later(world: World, region: Region) -> None:
    """Keep the reports that the region's node sends now: they arrive later, perhaps after a fail-over."""
    region.late += [(region.node, report) for report in world.reports(region)]


def another(world: World, chance: random.Random) -> None:
    """Take a few other steps during a purge."""
    for _ in range(chance.randint(1, 4)):
        possible = [step for step in steps(world, chance) if not step[1].startswith("purge")]
        _, _, do = chance.choices(possible, [weight for weight, _, _ in possible])[0]
        do()


def play(url: str, seed: int, number: int, log: Entries | None = None) -> None:
    """Play a history to its end, over the embedded log or another; a failure reports all steps."""
    chance, history = random.Random(seed), []
    world = World(url, log, names_nodes=seed % 2 == 0)
    try:
        for _ in range(number):
            possible = list(steps(world, chance))
            _, name, do = chance.choices(possible, [weight for weight, _, _ in possible])[0]
            history.append(name)
            do()
            world.check()
        history.append("all come to rest")
        world.settle()
    except AssertionError as e:
        e.add_note(f"seed {seed}: " + "; ".join(history))
        raise
    finally:
        world.db.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500 // STEPS))
def test_500_random_steps_lose_nothing(seed: int) -> None:
    play(new_database(), seed, STEPS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_000 + 10_000 // STEPS))
def test_10_000_random_steps_lose_nothing(seed: int) -> None:
    play(new_database(), seed, STEPS)
