"""The recycle workflow without Temporal: its state survives the crash of a worker, and its activities are retried.

One attempt of one activity runs at a time; the result of a superseded attempt is ignored, as in Temporal.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from sqlalchemy import event

from sexton.marks.model import LeaseBusy, LeaseLost
from sexton.operators.controls.model import Halted, NotEnabled
from sexton.owners.plugin import OwnerContext
from sexton.recycle.model import STOPPED, SUCCEEDED, RoundEnded
from sexton.recycle.pipeline.model import AdoptOrder
from sexton.recycle.planning.model import KindPlan, Plan
from sexton.recycle.rounds.ledger import Ledger
from sexton.recycle.rounds.model import CloseOrder, OpenedRound
from tests.fault.shop import INSTANCE, Barrier
from tests.support.crashes import Crash
from tests.support.rig import GRACE, Rig

MAX_LEASES = 3


class Process(Rig):
    """One worker process: once it is dead, it begins no transaction."""

    def __init__(self, url: str, *, barrier: bool = False) -> None:
        super().__init__(url, threads=1, beside=False)  # which makes an example reproducible
        if barrier:
            self.owner = Barrier(OwnerContext(self.db, self.registry))
            self.recycler = self.recycler_of(self.owner)
        self.dead = False
        event.listen(self.db.engine, "begin", self._still_alive, insert=True)

    def _still_alive(self, _connection: object) -> None:
        if self.dead:
            raise Crash("dead already")


class Superseded(Exception):
    """Another attempt of this activity was started, so that the result of this one does not count."""


class LocalRound:
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
        self._ledger = Ledger()

    def run_to_end(self, rig: Rig) -> None:
        """Do the remaining work; return when the round is closed or its lease is busy."""
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
            except RoundEnded:  # the round that took the lease over has closed this one with its counts
                self.ended = "CUT_OFF"
                return
        self._close(rig, "FAILED")

    def shards_left(self) -> list[tuple[KindPlan, int]]:
        """Return the shards that are not finished, each with its kind."""
        if self._plan is None or self.opened is None or not self.opened.may_delete:
            return []
        return [(kind, shard) for kind in self._plan.kinds for shard in self._ledger.unfinished_shards(kind.kind)]

    def work_range(self, rig: Rig, kind: KindPlan, shard: int) -> None:
        """Work on the next range of one shard."""
        assert self.opened is not None
        assert self._plan is not None
        order = self._ledger.next_range(self.opened, self._plan, kind, shard)
        self._ledger.add_range(order, self._step(lambda attempt: rig.recycler.recycle(order, attempt, lambda: None)))

    def _work(self, rig: Rig) -> None:
        if not self._ready:
            self.opened = self._step(lambda _: self._open(rig))
            self._ready = True
        assert self.opened is not None
        opened = self.opened
        if opened.may_delete and not self._adopted:
            order = AdoptOrder(round=opened.round, lease=opened.lease, upload_grace_seconds=GRACE)
            receipt = self._step(lambda attempt: rig.recycler.adopt(order, attempt, lambda: None))
            self._adopted = True
            self._ledger.add_adoption(receipt)
        if self._plan is None:
            self._plan = self._step(lambda _: rig.plan(INSTANCE))
            self._ledger.begin(self._plan)
        while left := self.shards_left():
            self.work_range(rig, *left[0])
        self._close(rig, SUCCEEDED)

    def _open(self, rig: Rig) -> OpenedRound:
        opened = rig.rounds.open(INSTANCE, self.run, None, rig.policy)
        rig.recycler.announce(opened, lambda: None)
        return opened

    def _close(self, rig: Rig, outcome: str) -> None:
        if self.opened is not None:
            plan = self._plan.id if self._plan else None
            order = CloseOrder(opened=self.opened, plan=plan, outcome=outcome, kept=self._ledger.kept)
            with suppress(Superseded):
                self._step(lambda _: rig.rounds.close(order))
        self.ended = outcome

    def work_other_shard(self, rig: Rig, kind: KindPlan, shard: int) -> None:
        """Work on a range of another shard at the same time, as a round does; an error ends only this range."""
        step, attempt = self._steps, self.attempt
        self.attempt = 1
        with suppress(LeaseLost, LeaseBusy, Halted, NotEnabled):
            self.work_range(rig, kind, shard)
        self._steps, self.attempt = step, attempt

    def _step(self, activity: Callable[[int], Any]) -> Any:
        """Run one activity; its result or error counts only while no other attempt was begun."""
        self._steps += 1
        own_step = self._steps
        try:
            result = activity(self.attempt)
        except (LeaseLost, LeaseBusy, Halted) as e:
            if self._steps != own_step:
                raise Superseded from e
            raise
        if self._steps != own_step:
            raise Superseded
        self.attempt = 1
        return result
