"""The recycle workflow without Temporal: its state survives the crash of a worker, its activities are tried again.

One activity, one attempt at a time; what a worker that was given up still reports is ignored, as Temporal does.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import event

from sexton.marks.keepers import Kept
from sexton.marks.lease_port import LeaseBusy, LeaseLost
from sexton.operators.controls.port import Halted, NotEnabled
from sexton.recycle.errors import RoundEnded
from sexton.recycle.model import STOPPED, SUCCEEDED
from sexton.recycle.pipeline.model import AdoptOrder, Cursor, RangeOrder
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.rounds.model import CloseOrder, OpenedRound
from tests.fault.shop import INSTANCE, Barrier
from tests.support.rig import GRACE, Rig

MAX_LEASES = 3
START = Cursor()


class Crash(BaseException):
    """A process ends here; nobody may catch it."""


class Process(Rig):
    """One worker process: once it is dead nothing more of it reaches the database."""

    def __init__(self, url: str, *, barrier: bool = False) -> None:
        super().__init__(url, threads=1, beside=False)  # so that an example is the same each time
        if barrier:
            self.owner = Barrier(self.db)
            self.recycler = self.recycler_of(self.owner)
        self.dead = False
        event.listen(self.db.engine, "begin", self._still_alive, insert=True)

    def _still_alive(self, _connection: object) -> None:
        if self.dead:
            raise Crash("dead already")


@dataclass(frozen=True)
class Place:
    """How far one kind is."""

    number: int = 0
    claimed: int = 0
    after: Cursor = START
    finished: bool = False


class Superseded(Exception):
    """Another attempt of this activity has been started elsewhere; whatever this one says does not count."""


class Flow:
    """One run of the workflow."""

    def __init__(self, run: str) -> None:
        self.run = run
        self.attempt = 1
        self.opened: OpenedRound | None = None
        self.ended = ""
        self._steps = 0
        self._ready = False
        self._adopted = False
        self._plan: Plan | None = None
        self._kinds: dict[str, Place] = {}
        self._kept: Counter[Kept] = Counter()

    def go(self, rig: Rig) -> None:
        """Do what is left to do; ends when the round is closed, or cannot have its lease."""
        for _ in range(MAX_LEASES):
            try:
                self._work(rig)
                return
            except LeaseLost:
                self._ready, self._adopted, self.attempt = False, False, 1
            except LeaseBusy:
                self.ended = "BUSY"
                return
            except Superseded:
                return
            except Halted:
                self._close(rig, STOPPED)
                return
            except NotEnabled:
                self._close(rig, "FAILED")
                return
            except RoundEnded:  # whoever took the lease over has ended it with what it had done
                self.ended = "CUT_OFF"
                return
        self._close(rig, "FAILED")

    def kinds_left(self) -> list[KindPlan]:
        """Return the kinds that are not through."""
        if self._plan is None or self.opened is None or not self.opened.may_delete:
            return []
        return [k for k in self._plan.kinds if not self._kinds.get(k.kind, Place()).finished]

    def range(self, rig: Rig, kind: KindPlan) -> None:
        """Work on the next range of one kind."""
        assert self.opened is not None
        opened, at = self.opened, self._kinds.get(kind.kind, Place())
        order = RangeOrder(
            round=opened.round,
            number=at.number,
            lease=opened.lease,
            kind=kind.kind,
            cutoff=kind.cutoff,
            limit=kind.marks - at.claimed,
            after=at.after,
            upload_grace_seconds=GRACE,
        )
        told = self._step(lambda attempt: rig.recycler.recycle(order, attempt, lambda: None))
        self._kept += Counter(told.kept)
        self._kinds[kind.kind] = replace(
            at, number=at.number + 1, claimed=at.claimed + told.claimed, after=told.last, finished=told.finished
        )

    def _work(self, rig: Rig) -> None:
        if not self._ready:
            self.opened = self._step(lambda _: self._open(rig))
            self._ready = True
        assert self.opened is not None
        opened = self.opened
        if opened.may_delete and not self._adopted:
            order = AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE)
            told = self._step(lambda attempt: rig.recycler.adopt(order, attempt, lambda: None))
            self._adopted = True
            self._kept += Counter(told.kept)
        if self._plan is None:
            self._plan = self._step(lambda _: rig.plan(INSTANCE))
        while left := self.kinds_left():
            self.range(rig, left[0])
        self._close(rig, SUCCEEDED)

    def _open(self, rig: Rig) -> OpenedRound:
        opened = rig.rounds.open(INSTANCE, self.run, None, rig.policy)
        rig.recycler.announce(opened, lambda: None)
        return opened

    def _close(self, rig: Rig, outcome: str) -> None:
        if self.opened is not None:
            plan = self._plan.id if self._plan else None
            order = CloseOrder(opened=self.opened, plan=plan, outcome=outcome, kept=dict(self._kept))
            with suppress(Superseded):
                self._step(lambda _: rig.rounds.close(order))
        self.ended = outcome

    def beside(self, rig: Rig, kind: KindPlan) -> None:
        """Work on a range of another kind at the same time, as a round does; what ends it ends only itself."""
        step, attempt = self._steps, self.attempt
        self.attempt = 1
        with suppress(LeaseLost, LeaseBusy, Halted, NotEnabled):
            self.range(rig, kind)
        self._steps, self.attempt = step, attempt

    def _step(self, activity: Callable[[int], Any]) -> Any:
        """Run one activity; its result or error counts only while no other attempt was begun."""
        self._steps += 1
        mine = self._steps
        try:
            told = activity(self.attempt)
        except (LeaseLost, LeaseBusy, Halted) as e:
            if self._steps != mine:
                raise Superseded from e
            raise
        if self._steps != mine:
            raise Superseded
        self.attempt = 1
        return told
