"""The world of one history: a shop, its Sexton, two vaults, and operations on them, crashes included.

One thread does everything, so that a history is reproducible. The crash-point hook starts the operations that happen
during a round: between two of its statements, and never inside one of its transactions.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sexton.kernel.crash_points import installed
from tests.fault.local_round import LocalRound, Process
from tests.fault.shop import INSTANCE, Shop, Thing
from tests.fault.witness import Place, Witness
from tests.servers.postgres import driver_url
from tests.support.crashes import Crash
from tests.support.reader import DatabaseReader
from tests.support.rig import Rig

INSIDE = frozenset({"claim.guarded", "claim.checked", "claim.written", "commit.deleted", "hold.guarded"}) | {
    "hold.written",
    "undrop.deleted",
}
"""Points inside a write transaction, where a crash may happen but no other write."""
LOADING, LIVE, DROPPED, MISTAKEN, OVER = "loading", "live", "dropped", "mistaken", "over"


class Item:
    """A thing of the shop, with its status and its files.

    ``nested``: its prefix lies below that of its table; then a mark of the table's prefix may be the only one that it
    has (``covered``).
    """

    def __init__(self, thing: Thing, *, nested: bool = False) -> None:
        self.thing, self.status = thing, LOADING
        self.files: list[tuple[str, int]] = []
        self.nested, self.covered = nested, False
        self.deleted_before: set[tuple[str, str]] = set()
        """The marks above a nested thing whose files were deleted before it was announced."""

    @property
    def id(self) -> str:
        """Return the id of the thing."""
        return self.thing.id


class Frame:
    """Work in progress: the crash point at which it dies, and the operations that happen during it."""

    def __init__(self, process: Rig | None, round_: LocalRound | None, dies: Any, meanwhile: Sequence[Any]) -> None:
        self.process, self.round_, self.meanwhile = process, round_, list(meanwhile)
        self.dies = dies
        self.visits: Counter[str] = Counter()
        self.pending: set[Place] = set()


class World:
    """The state of one history. ``apply`` does one operation and lets the witness check it."""

    def __init__(self, folder: Path, url: str, *, view: str = "", barrier: bool = False) -> None:
        self.folder, self.url = folder, url
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
        self.shop = self.owner()
        self.view, self.view_is_lost, self.barrier = view, False, barrier
        self.witness = Witness(DatabaseReader(driver_url(url)), roots)
        self.rig = self.process()
        if view:
            self.shop.create_live_view(view)
            self.rig.registry.set_live_view(INSTANCE, "public.sexton_live")
        self.add_vault("disk")

    def close(self) -> None:
        """Close all connections."""
        self.shop.close()
        self.witness.tables.close()
        self.rig.db.close()

    def process(self) -> Process:
        """Return another worker process."""
        return Process(self.url, barrier=self.barrier)

    def owner(self) -> Shop:
        """Return another process of the owner."""
        return Shop(driver_url(self.url), self.folder)

    def add_vault(self, name: str) -> None:
        """Register a vault."""
        if name not in self.witness.vaults and name not in self.away:
            self.rig.local(self.witness.roots[name], name)
            self.witness.vaults.add(name)

    def items_with(self, *statuses: str) -> list[Item]:
        """Return the items with one of these statuses."""
        return [i for i in self.items if i.status in statuses]

    def put(self, item: Item, name: str) -> bool:
        """Write one file of an item; return False if its disk is unmounted."""
        vault, key = item.thing.vault, item.thing.prefix + name
        if vault in self.away:
            return False
        path = self.witness.roots[vault] / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(key.encode())
        self.witness.written[vault, key] = len(key)
        item.files.append((key, len(key)))
        return True

    def mount(self, vault: str, mounted: bool) -> None:
        """Mount or unmount a disk; an unmounted disk leaves an empty folder."""
        root, aside = self.folder / vault, self.folder / f"{vault}.away"
        if mounted and vault in self.away:
            root.rename(self.folder / f"{vault}.empty-{next(self.numbers)}")
            aside.rename(root)
            self.away.discard(vault)
        elif not mounted and vault not in self.away:
            root.rename(aside)
            root.mkdir()
            self.away.add(vault)
        self.witness.roots[vault] = aside if vault in self.away else root

    def later(self, seconds: int) -> None:
        """Advance the clock."""
        self.rig.later(seconds)

    def run(
        self, round_: LocalRound, dies: Any = None, meanwhile: Sequence[Any] = (), process: Rig | None = None
    ) -> bool:
        """Let a process work on a round until the round ends or the process dies; return whether it survived."""
        if not self.frames:
            self.witness.round_begins()
        worker = process or self.rig
        with self.at_work(worker, round_, dies, meanwhile) as died:
            round_.run_to_end(worker)
        if died and worker is self.rig:
            self.rig = self.process()
        return not died

    @contextmanager
    def at_work(
        self,
        process: Rig | None = None,
        round_: LocalRound | None = None,
        dies: Any = None,
        meanwhile: Sequence[Any] = (),
    ) -> Iterator[list[str]]:
        """Mark the block as work that may die; the yielded list then has the name of the crash point."""
        died: list[str] = []
        frame = Frame(process, round_, dies, meanwhile)
        self.frames.append(frame)
        try:
            yield died
        except Crash as e:
            died.append(str(e))
        finally:
            self.frames.pop()
        if isinstance(process, Process) and process.dead:
            process.db.close()
        self.witness.unrecorded |= frame.pending | self.witness.check()

    def apply(self, operation: Any) -> None:
        """Do one operation; the witness checks the world at every crash point and at the end."""
        with installed(self._reached):
            operation.do(self)
        self.witness.check()

    def _reached(self, name: str) -> None:
        self.hits[name] += 1
        if not self.frames:
            return
        frame, witness = self.frames[-1], self.witness
        fresh = witness.check(claims=name == "claim.committed")
        if name == "outcomes.recorded":
            frame.pending = set()
        elif name == "files.deleted":
            witness.unrecorded |= frame.pending
            frame.pending = fresh
        else:
            witness.unrecorded |= frame.pending | fresh
            frame.pending = set()
        frame.visits[name] += 1
        visit = (name, frame.visits[name])
        if name not in INSIDE and len(self.frames) == 1:
            for operation in [operation for at, operation in frame.meanwhile if at == visit]:
                operation.do(self)
                witness.unrecorded |= witness.check()
        if frame.dies == visit:
            self.deaths[name] += 1
            if isinstance(frame.process, Process):
                frame.process.dead = True
            raise Crash(name)
