"""Topics under random histories, with a crash between every two steps: nothing acknowledged is lost, and floors rise.

Writes, flushes, reports that come late, idle marks, crashes, openings, moves, drops and their undoing, restored
manifests and purges that die; over the embedded log, in SQLite. A history is its seed: what fails says which.
"""

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sexton.database import schema
from sexton.kernel.crash_points import OF_WAL
from tests.fault.wal_world import TOPICS, UNDROP_SECONDS, Entries, World
from tests.rig import DEPLOYMENT

STEPS = 100
Step = tuple[int, str, Callable[[], None]]


def steps(world: World, chance: random.Random) -> Iterator[Step]:
    """Yield what may happen next: how often, what it is called, and how it is done."""
    for name, its in world.regions.items():
        if its.dropped_at is not None:
            if world.clock < its.dropped_at + UNDROP_SECONDS:
                yield 2, f"undrop {name}", lambda its=its: world.undrop(its)
            continue
        yield 1, f"drop {name}", lambda its=its: world.drop(its)
        yield 1, f"restore the manifest of {name}", lambda its=its: world.restore(its)
        if its.late:
            yield 4, f"a report of {name} comes late", lambda its=its: world.hear(its.late.pop(0))
        if not its.open:
            if its.pins:
                yield 8, f"read {name}", lambda its=its: world.read(its)
            else:
                yield 8, f"begin to open {name}", lambda its=its: world.begin(its)
            continue
        yield 2, f"crash {name}", lambda its=its: world.crash(its)
        yield 8, f"append to {name}", lambda its=its: world.append(its)
        yield 4, f"flush {name}", lambda its=its: world.flush(its)
        yield 5, f"report of {name}", lambda its=its: world.hear(*world.reports(its))
        yield 4, f"report of {name}, under way", lambda its=its: its.late.extend(world.reports(its))
        yield 1, f"{name} lies", lambda its=its: world.lie(its)
        if its.under_way:
            yield 8, f"acknowledge {name}", lambda its=its: world.acknowledge(its)
        else:
            dies = chance.random() < 0.3
            yield 1, f"move {name}{', half' if dies else ''}", lambda its=its, dies=dies: world.move(its, dies=dies)
    for topic in TOPICS:
        dies_at = chance.choice(["", "", *sorted(OF_WAL)])
        yield 6, f"purge {topic}, dies at {dies_at}", lambda t=topic, d=dies_at: world.purge(t, d)
        yield 3, f"purge {topic}, meanwhile", lambda t=topic: world.purge(t, meanwhile=lambda: another(world, chance))
        yield 1, f"map of {topic}", lambda t=topic: world.send_map(t)
    seconds = chance.choice([1, 100, 400, 4_000])
    yield 3, f"wait {seconds} s", lambda: world.wait(seconds)


def another(world: World, chance: random.Random) -> None:
    """Do something else, or a few things, while somebody purges."""
    for _ in range(chance.randint(1, 4)):
        may = [step for step in steps(world, chance) if not step[1].startswith("purge")]
        _, _, do = chance.choices(may, [weight for weight, _, _ in may])[0]
        do()


def play(url: str, seed: int, number: int, log: Entries | None = None) -> None:
    """Play a history to its end, over the embedded log or another; what fails tells all of it."""
    chance, told = random.Random(seed), []
    world = World(url, log)
    try:
        for _ in range(number):
            may = list(steps(world, chance))
            _, name, do = chance.choices(may, [weight for weight, _, _ in may])[0]
            told.append(name)
            do()
            world.check()
        told.append("all come to rest")
        world.settle()
    except AssertionError as e:
        e.add_note(f"seed {seed}: " + "; ".join(told))
        raise
    finally:
        world.db.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a database with the schema and no row."""
    file = tmp_path_factory.mktemp("wal") / "empty.db"
    schema.init(f"sqlite:///{file}", DEPLOYMENT)
    return file


@pytest.mark.parametrize("seed", range(500 // STEPS))
def test_500_random_steps_lose_nothing(empty: Path, tmp_path: Path, seed: int) -> None:
    shutil.copy(empty, tmp_path / "wal.db")

    play(f"sqlite:///{tmp_path / 'wal.db'}", seed, STEPS)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1_000, 1_000 + 10_000 // STEPS))
def test_10_000_random_steps_lose_nothing(empty: Path, tmp_path: Path, seed: int) -> None:
    shutil.copy(empty, tmp_path / "wal.db")

    play(f"sqlite:///{tmp_path / 'wal.db'}", seed, STEPS)
