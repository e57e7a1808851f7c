"""kill -9 the worker in the middle of a round: what happens next is seen in listings, not in Sexton's words."""

import json
import time
from collections.abc import Collection
from typing import Any, NamedTuple

from examples.demo.console import Console
from examples.demo.listing import count
from examples.demo.rounds import deleting
from examples.minidb import Vault
from sexton.runtime.embedded.stack import WORKER, Stack

SHARE = 0.40
AIM = 0.30
"""Where we pull the trigger to hit ``SHARE``: a listing takes its time, and pages under way are still deleted."""
BIGGEST_KIND = "dropped"
"""Who deletes this kind is killed: three quarters of the garbage, so at 40 % much of it is left."""
SECOND = f"{WORKER}-2"
LOOK_SECONDS = 0.25
SILENCE_SECONDS = 4.0
"""So long without a deletion, and somebody has stopped deleting; heartbeats time out after 10 s."""


class Sight(NamedTuple):
    """What a listing showed; ``at`` in seconds of the monotonic clock."""

    at: float
    gone: int


class Killed(NamedTuple):
    """A round that went through the death of a worker."""

    report: Any
    silence: float
    """Seconds in which nothing was deleted, because the worker was dead."""
    rate: float
    """Objects per second while any worker deleted."""


class Killing:
    """One round of an instance, watched in listings and shot at.

    Args of the constructor: ``before`` is how many objects there are, ``garbage`` how many of them must go.
    """

    def __init__(
        self, console: Console, stack: Stack, vaults: Collection[Vault], instance: str, before: int, garbage: int
    ) -> None:
        self._console, self._stack, self._vaults, self._instance = console, stack, vaults, instance
        self._before, self._garbage = before, garbage
        self._sights: list[Sight] = []
        """Each listing that showed fewer objects than the one before; the first is the moment somebody began."""
        self._at_kill: int | None = None
        self._silence = 0.0

    def apply(self, plan: int) -> Killed:
        """Apply the plan; when about ``SHARE`` is gone, kill the worker that deletes, and see the other one go on."""
        for name in (WORKER, SECOND):
            self._stack.await_worker(name)
        victim = ""
        with self._console.began("apply", str(plan), "--yes", "--json") as command:
            while command.poll() is None and not victim:
                victim = deleting(self._stack, self._instance, BIGGEST_KIND)
                self._sights = [Sight(time.monotonic(), 0)]
            while command.poll() is None:
                gone = self._look()
                if self._at_kill is None and gone >= AIM * self._garbage:
                    self._kill(victim)
                time.sleep(0 if self._at_kill is None else LOOK_SECONDS)
            self._look()
            report = json.loads(self._console.ended(command))
        # Too late is a disagreement too: then nobody had anything to take over.
        in_the_middle = self._at_kill is not None and self._at_kill < self._garbage and self._silence > 0
        self._console.same("a worker was killed in the middle of the round", True, in_the_middle)
        busy = self._sights[-1].at - self._sights[0].at - self._silence
        return Killed(report, self._silence, self._sights[-1].gone / max(busy, 0.1))

    def _look(self) -> int:
        """List; return how many are gone, and say so when deletions go on after a silence."""
        now, last = Sight(time.monotonic(), self._before - count(self._vaults)), self._sights[-1]
        if now.gone <= last.gone:
            return now.gone
        self._sights.append(now)
        if self._at_kill is not None and now.at - last.at > max(self._silence, SILENCE_SECONDS):
            self._silence = now.at - last.at
            alive = ", ".join(n for n, c in self._stack.children.items() if n in (WORKER, SECOND) and not c.exit_code())
            self._console.say(f"  {alive} goes on, {self._silence:.1f} s after the last deletion")
        return now.gone

    def _kill(self, victim: str) -> None:
        self._stack.children[victim].kill()
        # Once more: deletions went on while we counted, and the store still does what it was told before.
        self._at_kill = gone = self._look()
        share = f"{gone / self._garbage:.0%}: {gone:,} of {self._garbage:,} objects"
        self._console.say(f"  kill -9 {victim}; when it was dead a listing missed {share}")
