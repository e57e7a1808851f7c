"""`sexton up`: run the embedded stack in the foreground until Ctrl-C, SIGTERM, or the death of a server.

A worker that dies is started again; what it had under way, another or the new one finishes.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sexton.kernel.errors import SextonError
from sexton.runtime.embedded.binaries import EmbeddedError
from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.stack import WORKER, WORKER_READY_SECONDS, Stack

WATCH_SECONDS = 0.5
QUICK_SECONDS = 30.0
"""A worker that dies sooner after its start is not well: the next start waits twice as long."""
QUICK_DEATHS = 5
"""So many of them in a row, and we give up."""
_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Report = Callable[[str], None]


def run(home: Path, worker: bool, report: Report) -> None:
    """Start the stack, say where everything is, and watch it; returns when it was asked to stop.

    With a worker rounds start by themselves, as the schedule says; new instances only observe.

    Raises:
        EmbeddedError: a part did not start, or a server died; everything else has been stopped.
    """
    for number in _STOPPERS:
        signal.signal(number, signal.default_int_handler)
    stack = Stack(home)
    try:
        stack.start(report)
        if worker:
            # Before the worker: it looks once, at its start, whether the search attributes are there.
            report(f"schedule  {_schedule(stack, report)}")
            report(f"worker    ready in {stack.start_worker():.1f} s")
        _addresses(stack, report)
        StackSupervisor(stack, report).stay()
    except KeyboardInterrupt:
        report("stopping …")
    finally:
        # A second Ctrl-C would leave children behind.
        for number in _STOPPERS:
            signal.signal(number, signal.SIG_IGN)
        stack.stop()
    report(f"stopped; data stays in {stack.home}")


@dataclass
class _Life:
    """How a worker fared so far; instants of the monotonic clock."""

    started: float
    quick_deaths: int = 0
    again_at: float | None = None


class StackSupervisor:
    """Looks after the parts of a stack: starts dead workers again, and ends with the death of anything else."""

    def __init__(self, stack: Stack, report: Report, first_wait_seconds: float = 0.5) -> None:
        self._stack = stack
        self._report = report
        self._first_wait = first_wait_seconds
        self._lives: dict[str, _Life] = {}

    def stay(self, look_seconds: float = WATCH_SECONDS) -> None:
        """Look until an exception, Ctrl-C for one, ends it. Raises as ``look`` does, which it says at once."""
        try:
            while True:
                self.look()
                time.sleep(look_seconds)
        except EmbeddedError as e:
            # Stopping the rest may take half a minute: workers finish their pages.
            self._report(f"{str(e).splitlines()[0]}; stopping the rest …")
            raise

    def look(self) -> None:
        """Look once.

        Raises:
            EmbeddedError: a server died, or a worker does again and again; with the last lines of its log.
        """
        for name, child in self._stack.children.items():
            if (code := child.exit_code()) is None:
                continue
            if not name.startswith(WORKER):
                child.check()
            self._mend(name, child, code)

    def _mend(self, name: str, child: Child, code: int) -> None:
        now = time.monotonic()
        life = self._lives.setdefault(name, _Life(started=float("-inf")))
        if life.again_at is None:
            life.quick_deaths = life.quick_deaths + 1 if now - life.started < QUICK_SECONDS else 0
            if life.quick_deaths >= QUICK_DEATHS:
                self._report(f"{name} died {QUICK_DEATHS} times within {QUICK_SECONDS:.0f} s of its start: giving up")
                child.check()
            wait = self._first_wait * 2**life.quick_deaths
            life.again_at = now + wait
            self._report(f"{name} ended with exit code {code}; it starts again in {wait:.1f} s")
        elif now >= life.again_at:
            with suppress(EmbeddedError):  # dead at once: the next look counts it
                child.start(lambda: True, WORKER_READY_SECONDS)  # not waiting: the servers need our eyes too
            life.started, life.again_at = now, None
            self._report(f"{name} started again; the log of the dead one is {child.log.with_suffix('.log.1')}")


def _schedule(stack: Stack, report: Report) -> str:
    """Let rounds start by themselves; return what was done. Repeatable; an operator's pause stays."""
    # Temporal's client takes half a second to import, which the CLI's start must not.
    from config.settings import Settings, load
    from sexton.runtime.temporal import schedules, search_attributes
    from sexton.runtime.temporal.client import connect

    load()  # what is wrong in the environment is told in one sentence
    env = stack.environment()
    temporal = {"address": env["SEXTON_TEMPORAL__ADDRESS"]}
    settings = Settings(deployment=env["SEXTON_DEPLOYMENT"], temporal=temporal)

    async def applied() -> str:
        client = await connect(settings)
        try:
            await search_attributes.register(client)
        except SextonError as e:
            report(f"warning: {e}")
        return await schedules.apply(client, settings)

    every = settings.recycle.recycle_interval_seconds
    return f"{asyncio.run(applied())}: each instance has a round every {every} s; see: sexton schedules list"


def _addresses(stack: Stack, report: Report) -> None:
    env = stack.environment()
    report("")
    report(f"Temporal UI  {env['SEXTON_TEMPORAL__UI_URL']}")
    report(f"S3           {env['SEXTON_S3__ENDPOINT_URL']} (keys in {stack.home / 'env'})")
    report(f"database     {env['SEXTON_DATABASE_URL']}")
    if WORKER in stack.children:
        report(f"metrics      http://{env['SEXTON_METRICS__LISTEN']}/metrics")
    report(f"logs         {stack.home / 'logs'}")
    report("")
    report("In another terminal, in this directory:")
    if stack.home != Path(".sexton").resolve():
        report(f"  export SEXTON_HOME={stack.home}")
    report("  sexton doctor              is everything reachable?")
    report("  sexton settings show       every setting and where it comes from")
    report("  sexton status              what is due, what ran, what was kept")
    report("Ctrl-C stops the stack.")
