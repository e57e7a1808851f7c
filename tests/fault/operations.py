"""What happens to a shop's Sexton, as values: time, operators, rounds that die and others meanwhile; with the owner's.

``n`` picks one of what is there, so any history runs.
"""

from dataclasses import dataclass
from typing import Any

from sexton.marks.model import Ref
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.store import Hold as HoldRow
from sexton.operators.holds.store import TooLate
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.fault.flow import Flow
from tests.fault.owner_operations import At, Commit, Compact, Drop, DropTable, Load, Mistake, Undrop, Upload, pick
from tests.fault.shop import INSTANCE
from tests.fault.witness import Kept, Violation
from tests.fault.world import LOADING, OVER, Item, World

OWNER = (Commit, Compact, Drop, DropTable, Load, Mistake, Undrop, Upload)


@dataclass(frozen=True)
class Later:
    """Time passes."""

    seconds: int = 10_801

    def do(self, w: World) -> None:
        w.later(self.seconds)


@dataclass(frozen=True)
class Hold:
    """An operator holds everything, a mark (or table), a place, or one file, for so long."""

    what: str = "mark"
    n: int = 0
    seconds: int = 20_000
    dies: At = None

    def do(self, w: World) -> None:
        item = pick(w.items, self.n)
        if item is None:
            return
        row, kept = self._of(item)
        until = w.witness.books.now() + self.seconds * 1000
        made = None
        with w.at_work(w.rig, dies=self.dies) as died:
            try:
                made, _ = w.rig.holds.place(row, self.seconds)
            except TooLate:
                books = w.witness.books
                if kept.ref not in books.history() and books.marks()[kept.ref].state != "CLAIMED":
                    raise Violation(f"a hold on {kept.ref} was refused as too late") from None
        if died:
            w.rig = w.process()
        elif made is not None:
            w.held.append(made.id)
            w.witness.holds.append(kept._replace(until=until))

    def _of(self, item: Item) -> tuple[HoldRow, Kept]:
        given: dict[str, Any] = {"instance": INSTANCE, "reason": "look into it", "placed_by": "test"}
        ref, vault, prefix = None, None, None
        if self.what in ("mark", "table"):
            kind = "prepared" if item.status in (LOADING, OVER) else "dropped"
            ref = ("dropped", item.thing.above or item.id) if self.what == "table" else (kind, item.id)
            given |= {"scope": "mark", "mark_kind": ref[0], "mark_id": ref[1]}
        elif self.what == "everything":
            given |= {"scope": "instance"}
        else:
            vault = item.thing.vault
            prefix = {"place": item.thing.prefix, "vault": "", "file": item.files[0][0] if item.files else "data/"}[
                self.what
            ]
            # A vault that is not registered cannot be held; its marks are set aside anyway.
            given |= {"scope": "prefix", "vault": "disk", "prefix": prefix}
            vault = "disk"
        return HoldRow(**given), Kept(given["scope"], ref, vault, prefix, 0)


@dataclass(frozen=True)
class Release:
    """An operator ends a hold."""

    n: int = 0

    def do(self, w: World) -> None:
        if not w.held:
            return
        at = self.n % len(w.held)
        w.rig.holds.release(w.held[at])
        w.witness.holds[at] = w.witness.holds[at]._replace(until=0)


@dataclass(frozen=True)
class Control:
    """An operator says stop, or puts something on a list; saying it again takes it back."""

    kind: str = "stop"
    name: str = INSTANCE

    def do(self, w: World) -> None:
        said = (self.kind, self.name)
        if said in w.witness.controls:
            w.rig.controls.remove(ControlKind(self.kind), self.name)
            w.witness.controls.remove(said)
        else:
            w.rig.controls.put(ControlKind(self.kind), self.name)
            w.witness.controls.add(said)


@dataclass(frozen=True)
class Enable:
    """An operator lets rounds delete."""

    def do(self, w: World) -> None:
        w.rig.registry.enable(INSTANCE)
        w.witness.enabled = True


@dataclass(frozen=True)
class AddVault:
    """An operator registers the vault that marks may have named already."""

    def do(self, w: World) -> None:
        w.add_vault("spare")


@dataclass(frozen=True)
class Unmount:
    """A disk goes away and leaves its empty mount point; the second time it comes back."""

    vault: str = "disk"

    def do(self, w: World) -> None:
        w.mount(self.vault, self.vault in w.away)


@dataclass(frozen=True)
class Quarantine:
    """An operator looks at what was set aside: try it again, or give it up."""

    n: int = 0
    discard: bool = False

    def do(self, w: World) -> None:
        store = QuarantineStore(w.rig.db)
        if (aside := pick(list(store.list(INSTANCE)), self.n)) is None:
            return
        ref = Ref(aside.kind, aside.id)
        if self.discard:
            store.discard(INSTANCE, ref, "nobody wants it")
        else:
            store.retry(INSTANCE, ref=ref)


@dataclass(frozen=True)
class Round:
    """A round. It may die, once or again when its activity is retried; others may act at named points meanwhile.

    ``then`` says what follows a death: the same run goes on elsewhere, or a later run adopts what is left.
    """

    dies: tuple[tuple[str, int], ...] = ()
    then: str = "retried"
    meanwhile: tuple[tuple[tuple[str, int], Any], ...] = ()

    def do(self, w: World) -> None:
        flow = Flow(f"run-{next(w.numbers)}")
        dies = list(self.dies)
        lived = w.run(flow, dies.pop(0) if dies else None, self.meanwhile)
        while not lived and self.then == "retried":
            flow.attempt += 1
            lived = w.run(flow, dies.pop(0) if dies else None)
        if not lived:
            w.later(61)


@dataclass(frozen=True)
class Rounds:
    """Several rounds, an interval apart."""

    number: int = 8

    def do(self, w: World) -> None:
        for _ in range(self.number):
            Round().do(w)
            w.later(3_601)


@dataclass(frozen=True)
class Steal:
    """Meanwhile: the worker was paused for longer than its lease, and another run took over."""

    def do(self, w: World) -> None:
        w.later(61)
        other = w.process()
        w.run(Flow(f"run-{next(w.numbers)}"), process=other)
        other.db.close()


@dataclass(frozen=True)
class Elsewhere:
    """Meanwhile: the activity was thought dead, and its next attempt runs to the end of the round elsewhere."""

    def do(self, w: World) -> None:
        flow = w.frames[-1].flow
        if flow is not None:
            other = w.process()
            flow.attempt += 1
            w.run(flow, process=other)
            other.db.close()


@dataclass(frozen=True)
class Beside:
    """Meanwhile: the same round works on another kind."""

    def do(self, w: World) -> None:
        frame = w.frames[-1]
        if frame.flow is not None and frame.process is not None and (left := frame.flow.kinds_left()[1:]):
            with w.at_work(frame.process, frame.flow):
                frame.flow.beside(frame.process, left[0])
