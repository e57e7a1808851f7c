"""Kill the worker in the middle of a round, and observe in listings that its successor continues."""

import json
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from examples.demo.console import Console
from examples.demo.listing import count
from examples.minidb import Vault
from sexton.runtime.embedded.stack import WORKER, Stack

KILL_SHARE = 0.40
POLL_SECONDS = 0.25
SILENCE_SECONDS = 4.0
"""After the kill the store still works on requests under way; later deletions are the successor's."""


class KilledRound:
    """One round, observed in listings, whose worker is killed in the middle."""

    def __init__(
        self, console: Console, stack: Stack, vaults: Collection[Vault], capped: Sequence[str], garbage: int
    ) -> None:
        """Count the objects; nothing is started.

        Args:
            console: where it is shown.
            stack: which runs the worker.
            vaults: all vaults of the instance.
            capped: the vault whose deletions are capped until the kill: its instance and its name.
            garbage: how many objects the round must delete.
        """
        self._console, self._stack, self._vaults, self._capped = console, stack, vaults, capped
        self._garbage, self._before = garbage, count(vaults)
        self._deleted = 0
        self._killed_at: float | None = None
        self._continued = False

    def apply(self, plan: int, settings: Mapping[str, str]) -> Any:
        """Apply the plan, kill the worker at about ``KILL_SHARE``, start its successor; return the round's report.

        Args:
            plan: its number.
            settings: variables for the successor.
        """
        with self._console.started("apply", str(plan), "--yes", "--json") as command:
            while command.poll() is None:
                if self._killed_at is None and self._count_deleted() >= KILL_SHARE * self._garbage:
                    self._kill(settings)
                self._observe()
                time.sleep(POLL_SECONDS)
            self._observe()
            report = json.loads(self._console.output(command))
        # A kill that came too late proves nothing: the successor had nothing to continue.
        self._console.same("the worker was killed in the middle of the round", True, self._continued)
        return report

    def _kill(self, settings: Mapping[str, str]) -> None:
        self._stack.children[WORKER].kill()
        self._killed_at, self._deleted = time.monotonic(), self._count_deleted()
        share = f"{self._deleted:,} of {self._garbage:,} objects ({self._deleted / self._garbage:.0%})"
        self._console.say(f"kill -9 of the worker, on purpose, after {share}.")
        self._stack.launch_worker(WORKER, settings)
        self._console.say("A new worker starts. After 10 s of silence the old one counts as dead.")
        self._console.sexton("vault", "uncap", *self._capped)

    def _observe(self) -> None:
        """List once; report it when deletions continue after the silence."""
        if self._killed_at is None or self._continued:
            return
        deleted, silence = self._count_deleted(), time.monotonic() - self._killed_at
        if deleted > self._deleted and silence > SILENCE_SECONDS:
            self._continued = True
            self._console.say(f"Seen: {silence:.0f} s after the kill, the new worker continues the deletion.")
        self._deleted = deleted

    def _count_deleted(self) -> int:
        return self._before - count(self._vaults)
