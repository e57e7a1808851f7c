"""One example: a shop, its Sexton, two vaults, and operations that happen to them, crashes included.

Everything is driven in one thread, so a history happens the same way each time. What comes at a named point comes from
the hook: between two statements of a round, and never inside one of its transactions.
"""

import itertools
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sexton.kernel.crash_points import installed
from tests.fault.flow import Crash, Flow, Process
from tests.fault.shop import Shop, Thing
from tests.fault.witness import Place, Witness
from tests.support.reader import DatabaseReader
from tests.support.rig import Rig

INSIDE = frozenset({"claim.guarded", "claim.checked", "claim.written", "commit.deleted", "hold.guarded"}) | {
    "hold.written",
    "undrop.guarded",
    "undrop.checked",
}
"""Points inside a write transaction: a crash may come there, another writer may not."""
LOADING, LIVE, DROPPED, MISTAKEN, OVER = "loading", "live", "dropped", "mistaken", "over"


class Item:
    """A thing of the shop, with what the test remembers of it."""

    def __init__(self, thing: Thing) -> None:
        self.thing, self.status = thing, LOADING
        self.files: list[tuple[str, int]] = []

    @property
    def id(self) -> str:
        """Return its name."""
        return self.thing.id


class Frame:
    """Somebody at work: where it will die, and what others do meanwhile."""

    def __init__(self, process: Rig | None, flow: Flow | None, dies: Any, meanwhile: Sequence[Any]) -> None:
        self.process, self.flow, self.meanwhile = process, flow, list(meanwhile)
        self.dies = dies
        self.visits: Counter[str] = Counter()
        self.pending: set[Place] = set()


class World:
    """State of one example. ``apply`` does one operation and looks."""

    def __init__(self, folder: Path, template: Path, *, view: bool = False, barrier: bool = False) -> None:
        self.folder, self.file = folder, folder / "shop.db"
        self.url = f"sqlite:///{self.file}"
        self.numbers = itertools.count(1)
        self.items: list[Item] = []
        self.obstacles: list[Path] = []
        self.held: list[int] = []
        self.away: set[str] = set()
        self.frames: list[Frame] = []
        self.hits: Counter[str] = Counter()
        self.deaths: Counter[str] = Counter()
        roots = {name: folder / name for name in ("disk", "spare")}
        for root in roots.values():
            root.mkdir(parents=True)
        shutil.copy(template, self.file)
        self.shop = Shop(self.file)
        if view:
            self.shop.show_what_is_live()
        self.view, self.barrier = view, barrier
        self.witness = Witness(DatabaseReader(self.file), roots)
        self.rig = self.process()
        self.add_vault("disk")

    def close(self) -> None:
        """Let the files go."""
        self.shop.close()
        self.witness.books.close()
        self.rig.db.close()

    def process(self) -> Process:
        """Return another worker process."""
        return Process(self.url, barrier=self.barrier)

    def add_vault(self, name: str) -> None:
        """Register a vault."""
        if name not in self.witness.vaults and name not in self.away:
            self.rig.local(self.witness.roots[name], name)
            self.witness.vaults.add(name)

    def of(self, *statuses: str) -> list[Item]:
        """Return the items of these states."""
        return [i for i in self.items if i.status in statuses]

    def put(self, item: Item, name: str) -> bool:
        """Write one file of an item, unless its disk is away."""
        vault, key = item.thing.vault, item.thing.prefix + name
        if vault in self.away:
            return False
        path = self.witness.roots[vault] / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key.encode())
        self.witness.written[vault, key] = len(key)
        item.files.append((key, len(key)))
        return True

    def mount(self, vault: str, there: bool) -> None:
        """Take a disk away, or bring it back; while it is away an empty folder is in its place."""
        root, aside = self.folder / vault, self.folder / f"{vault}.away"
        if there and vault in self.away:
            root.rename(self.folder / f"{vault}.empty-{next(self.numbers)}")
            aside.rename(root)
            self.away.discard(vault)
        elif not there and vault not in self.away:
            root.rename(aside)
            root.mkdir()
            self.away.add(vault)
        self.witness.roots[vault] = aside if vault in self.away else root

    def later(self, seconds: int) -> None:
        """Let time pass."""
        self.rig.later(seconds)

    def run(self, flow: Flow, dies: Any = None, meanwhile: Sequence[Any] = (), process: Rig | None = None) -> bool:
        """Let a process work on a round until it ends or dies; return whether it lived."""
        if not self.frames:
            self.witness.round_begins()
        mine = process or self.rig
        with self.at_work(mine, flow, dies, meanwhile) as ended:
            flow.go(mine)
        if ended and mine is self.rig:
            self.rig = self.process()
        return not ended

    @contextmanager
    def at_work(
        self, process: Rig | None = None, flow: Flow | None = None, dies: Any = None, meanwhile: Sequence[Any] = ()
    ) -> Iterator[list[str]]:
        """Somebody works inside; the list that is given names the point at which it died."""
        died: list[str] = []
        frame = Frame(process, flow, dies, meanwhile)
        self.frames.append(frame)
        try:
            yield died
        except Crash as e:
            died.append(str(e))
        finally:
            self.frames.pop()
        if isinstance(process, Process) and process.dead:
            process.db.close()
        self.witness.unrecorded |= frame.pending | self.witness.look()

    def apply(self, operation: Any) -> None:
        """Do one operation, with eyes at every named point, and look when it is over."""
        with installed(self._reached):
            operation.do(self)
        self.witness.look()

    def _reached(self, name: str) -> None:
        self.hits[name] += 1
        if not self.frames:
            return
        frame, witness = self.frames[-1], self.witness
        fresh = witness.look(claims=name == "claim.committed")
        if name == "outcomes.recorded":
            frame.pending = set()
        elif name == "files.deleted":
            witness.unrecorded |= frame.pending
            frame.pending = fresh
        else:
            witness.unrecorded |= frame.pending | fresh
            frame.pending = set()
        frame.visits[name] += 1
        here = (name, frame.visits[name])
        if name not in INSIDE and len(self.frames) == 1:
            for operation in [what for when, what in frame.meanwhile if when == here]:
                operation.do(self)
                witness.unrecorded |= witness.look()
        if frame.dies == here:
            self.deaths[name] += 1
            if isinstance(frame.process, Process):
                frame.process.dead = True
            raise Crash(name)
