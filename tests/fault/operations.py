"""Operations of a history that concern Sexton: time, operators, and rounds that die or are interrupted.

``n`` selects one of the possible subjects, so that every history can run.
"""

from dataclasses import dataclass
from typing import Any

from sexton.marks.model import Ref
from sexton.operators.controls.model import ControlKind
from sexton.operators.holds.model import Hold as HoldRow
from sexton.operators.holds.store import TooLate
from sexton.recycle.pipeline.sql.quarantine import QuarantineStore
from tests.fault.local_round import LocalRound
from tests.fault.owner_operations import (
    At,
    Commit,
    Compact,
    Drop,
    DropTable,
    Load,
    LoseView,
    Mistake,
    Refresh,
    Undrop,
    Upload,
    pick,
)
from tests.fault.shop import INSTANCE
from tests.fault.witness import PlacedHold, Violation
from tests.fault.world import LOADING, OVER, Item, World

OWNER = (Commit, Compact, Drop, DropTable, Load, LoseView, Mistake, Refresh, Undrop, Upload)


@dataclass(frozen=True)
class Later:
    """The clock advances."""

    seconds: int = 10_801

    def do(self, w: World) -> None:
        w.later(self.seconds)


@dataclass(frozen=True)
class Hold:
    """An operator places a hold on everything, a mark, a table, a prefix, or one file."""

    what: str = "mark"
    n: int = 0
    seconds: int = 20_000
    dies: At = None

    def do(self, w: World) -> None:
        item = pick(w.items, self.n)
        if item is None:
            return
        row, hold = self._hold_of(item)
        until = w.witness.tables.now() + self.seconds * 1000
        placed = None
        with w.at_work(w.rig, dies=self.dies) as died:
            try:
                placed, _ = w.rig.holds.place(row, self.seconds)
            except TooLate:
                tables = w.witness.tables
                if hold.ref not in tables.history() and tables.marks()[hold.ref].state != "CLAIMED":
                    raise Violation(f"a hold on {hold.ref} was refused as too late") from None
        if died:
            w.rig = w.process()
        elif placed is not None:
            w.held.append(placed.id)
            w.witness.holds.append(hold._replace(until=until))

    def _hold_of(self, item: Item) -> tuple[HoldRow, PlacedHold]:
        columns: dict[str, Any] = {"instance": INSTANCE, "reason": "look into it", "placed_by": "test"}
        ref, vault, prefix = None, None, None
        if self.what in ("mark", "table"):
            kind = "prepared" if item.status in (LOADING, OVER) else "dropped"
            ref = ("dropped", item.thing.above or item.id) if self.what == "table" else (kind, item.id)
            columns |= {"scope": "mark", "mark_kind": ref[0], "mark_id": ref[1]}
        elif self.what == "everything":
            columns |= {"scope": "instance"}
        else:
            vault = item.thing.vault
            prefix = {"place": item.thing.prefix, "vault": "", "file": item.files[0][0] if item.files else "data/"}[
                self.what
            ]
            # A hold needs a registered vault; marks of an unregistered one are quarantined anyway.
            columns |= {"scope": "prefix", "vault": "disk", "prefix": prefix}
            vault = "disk"
        return HoldRow(**columns), PlacedHold(columns["scope"], ref, vault, prefix, 0)


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
    """An operator stops the instance or adds a name to a list; the second time, the operator undoes it."""

    kind: str = "stop"
    name: str = INSTANCE

    def do(self, w: World) -> None:
        control = (self.kind, self.name)
        if control in w.witness.controls:
            w.rig.controls.remove(ControlKind(self.kind), self.name)
            w.witness.controls.remove(control)
        else:
            w.rig.controls.put(ControlKind(self.kind), self.name)
            w.witness.controls.add(control)


@dataclass(frozen=True)
class Enable:
    """An operator enables the instance."""

    def do(self, w: World) -> None:
        w.rig.registry.enable(INSTANCE)
        w.witness.enabled = True


@dataclass(frozen=True)
class AddVault:
    """An operator registers a vault that existing marks may name."""

    def do(self, w: World) -> None:
        w.add_vault("spare")


@dataclass(frozen=True)
class Unmount:
    """A disk is unmounted and leaves its empty mount point; the second time, it is mounted again."""

    vault: str = "disk"

    def do(self, w: World) -> None:
        w.mount(self.vault, self.vault in w.away)


@dataclass(frozen=True)
class Quarantine:
    """An operator retries or discards a quarantined mark."""

    n: int = 0
    discard: bool = False

    def do(self, w: World) -> None:
        store = QuarantineStore(w.rig.db)
        if (quarantined := pick(list(store.list(INSTANCE)), self.n)) is None:
            return
        ref = Ref(quarantined.kind, quarantined.id)
        if self.discard or quarantined.reason == "CHANGED":  # a retry would delete what was committed meanwhile
            store.discard(INSTANCE, ref, "no longer needed")
        else:
            store.retry(INSTANCE, ref=ref)


@dataclass(frozen=True)
class Round:
    """A round, which may die at crash points, also in retries, and during which other operations may happen.

    ``then`` says what follows a death: "retried" (the run continues in another process) or "adopted" (a later run
    adopts the claimed marks).
    """

    dies: tuple[tuple[str, int], ...] = ()
    then: str = "retried"
    meanwhile: tuple[tuple[tuple[str, int], Any], ...] = ()

    def do(self, w: World) -> None:
        round_ = LocalRound(f"run-{next(w.numbers)}")
        dies = list(self.dies)
        survived = w.run(round_, dies.pop(0) if dies else None, self.meanwhile)
        while not survived and self.then == "retried":
            round_.attempt += 1
            survived = w.run(round_, dies.pop(0) if dies else None)
        if not survived:
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
    """During a round: its worker is paused for longer than its lease, and another run takes over."""

    def do(self, w: World) -> None:
        w.later(61)
        other = w.process()
        w.run(LocalRound(f"run-{next(w.numbers)}"), process=other)
        other.db.close()


@dataclass(frozen=True)
class Elsewhere:
    """During a round: its activity is considered dead, and the next attempt finishes the round in another process."""

    def do(self, w: World) -> None:
        round_ = w.frames[-1].round_
        if round_ is not None:
            other = w.process()
            round_.attempt += 1
            w.run(round_, process=other)
            other.db.close()


@dataclass(frozen=True)
class Beside:
    """During a round: the same round works on another shard."""

    def do(self, w: World) -> None:
        frame = w.frames[-1]
        if frame.round_ is not None and frame.process is not None and (others := frame.round_.shards_left()[1:]):
            with w.at_work(frame.process, frame.round_):
                frame.round_.work_other_shard(frame.process, *others[0])
