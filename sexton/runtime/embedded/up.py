"""Run the embedded stack in the foreground (``sexton up``) until Ctrl-C, SIGTERM, or the death of a server.

A worker that dies is restarted; its unfinished work is taken over by the new one, or by another.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from config.sources import masked
from sexton.kernel.errors import SextonError
from sexton.runtime.embedded.child import Child, EmbeddedError
from sexton.runtime.embedded.stack import CONSOLE, NAMESPACE, SPARK_WORKER, WORKER, Stack

WATCH_SECONDS = 0.5
WITHOUT_TICKS = "SextonCapability != 'schedule'"
QUICK_SECONDS = 30.0
"""A death this soon after the start is a quick one: the next restart waits twice as long."""
QUICK_DEATHS = 5
"""After so many quick deaths in a row, the worker is not restarted."""
_STOPPERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Report = Callable[[str], None]


def run(home: Path, worker: bool, report: Report) -> None:
    """Start the stack, print its addresses, and supervise it; return when a signal stops it.

    With ``worker``, workers and the console run, and rounds run on schedule; new instances only observe.

    Raises:
        EmbeddedError: a part did not start, or a server died; everything else has been stopped.
    """
    for number in _STOPPERS:
        signal.signal(number, signal.default_int_handler)
    stack = Stack(home)
    try:
        stack.start(report)
        if not worker:
            report("schedule  not applied: nothing starts by itself until: sexton schedules apply")
        else:
            report(f"schedule  {_schedule(stack, report)}")
            report(f"worker    ready in {stack.start_worker():.1f} s")
            stack.launch_spark_worker()
            report(f"console   ready in {stack.start_console():.1f} s")
        _addresses(stack, report)
        StackSupervisor(stack, report).supervise()
    except KeyboardInterrupt:
        report("stopping …")
    finally:
        # A second Ctrl-C would leave children behind.
        for number in _STOPPERS:
            signal.signal(number, signal.SIG_IGN)
        stack.stop()
    report(f"stopped; data stays in {stack.home}")


@dataclass
class _WorkerHistory:
    """A worker's last start, quick deaths and next restart; instants of the monotonic clock."""

    started: float
    quick_deaths: int = 0
    restart_at: float | None = None


class StackSupervisor:
    """Restarts dead workers of a stack, and raises when a server dies."""

    def __init__(self, stack: Stack, report: Report, first_wait_seconds: float = 0.5) -> None:
        self._stack = stack
        self._report = report
        self._first_wait = first_wait_seconds
        self._histories: dict[str, _WorkerHistory] = {}

    def supervise(self, interval_seconds: float = WATCH_SECONDS) -> None:
        """Check all parts regularly until an exception, such as Ctrl-C; raise and report as ``check`` does."""
        try:
            while True:
                self.check()
                time.sleep(interval_seconds)
        except EmbeddedError as e:
            # Stopping the rest may take half a minute: workers finish their pages.
            self._report(f"{str(e).splitlines()[0]}; stopping the rest …")
            raise

    def check(self) -> None:
        """Check all parts once, and restart dead workers and a dead console.

        Raises:
            EmbeddedError: a server died, or the worker dies repeatedly; with the last lines of its log.
        """
        for name, child in [*self._stack.children.items()]:
            code = child.exit_code()
            if code is None:
                continue
            if not name.startswith((WORKER, CONSOLE)):
                child.check()
            self._restart(name, child, code)

    def _restart(self, name: str, child: Child, code: int) -> None:
        now = time.monotonic()
        history = self._histories.setdefault(name, _WorkerHistory(started=float("-inf")))
        if history.restart_at is None:
            history.quick_deaths = history.quick_deaths + 1 if now - history.started < QUICK_SECONDS else 0
            if history.quick_deaths >= QUICK_DEATHS:
                self._report(f"{name} died {QUICK_DEATHS} times within {QUICK_SECONDS:.0f} s of its start: giving up")
                if name in (SPARK_WORKER, CONSOLE):
                    self._report(f"everything else goes on without it; see {child.log}")
                    del self._stack.children[name]
                    return
                child.check()
            wait = self._first_wait * 2**history.quick_deaths
            history.restart_at = now + wait
            self._report(f"{name} ended with exit code {code}; it starts again in {wait:.1f} s")
        elif now >= history.restart_at:
            child.launch()  # without waiting: the servers must be checked too
            history.started, history.restart_at = now, None
            self._report(f"{name} started again; the log of the dead one is {child.log.with_suffix('.log.1')}")


def _schedule(stack: Stack, report: Report) -> str:
    """Apply the schedule of rounds and return a description. It may be repeated, and keeps an operator's pause."""
    # Imported here, as Temporal's client takes half a second, which the CLI's start must not.
    from config.settings import Settings, load
    from sexton.runtime.temporal import schedules, search_attributes
    from sexton.runtime.temporal.client import connect

    load()  # raises one sentence for each problem in the environment
    env = stack.environment()
    temporal = {"address": env["SEXTON_TEMPORAL__ADDRESS"]}
    settings = Settings(deployment=env["SEXTON_DEPLOYMENT"], temporal=temporal)

    async def apply() -> str:
        client = await connect(settings)
        try:
            await search_attributes.register(client)
        except SextonError as e:
            report(f"warning: {e}")
        result = await schedules.apply(client, settings)
        return await schedules.explain_idle(client, settings.require_deployment()) or f"{result}: {every}"

    interval = settings.recycle.recycle_interval_seconds
    every = f"each instance has a round every {interval} s; see: sexton schedules list"
    return asyncio.run(apply())


def _addresses(stack: Stack, report: Report) -> None:
    env = stack.environment()
    report("")
    if WORKER in stack.children:
        report(f"console      http://{env['SEXTON_API__LISTEN']}/console")
        if token := stack.create_token():
            report(f"             log in with {token}, which ends after 30 days")
        else:
            report("             no token could be made; see: sexton token create --help")
    # Without the ticks, which would fill the list; `sexton schedules apply` makes them, and the attribute.
    runs = f"/namespaces/{NAMESPACE}/workflows?query={quote(WITHOUT_TICKS)}" if WORKER in stack.children else ""
    report(f"Temporal UI  {env['SEXTON_TEMPORAL__UI_URL']}{runs}")
    report(f"S3           {env['SEXTON_S3__ENDPOINT_URL']} (keys in {stack.home / 'env'})")
    report(f"database     {masked(env['SEXTON_DATABASE_URL'])} (password in {stack.home / 'env'})")
    if WORKER in stack.children:
        report(f"metrics      http://{env['SEXTON_METRICS__LISTEN']}/metrics")
    report(f"logs         {stack.home / 'logs'}")
    report("")
    report("In another terminal, in this directory:")
    if stack.home != Path(".sexton").resolve():
        report(f"  export SEXTON_HOME={stack.home}")
    report("  sexton doctor              is everything reachable?")
    report("  sexton settings show       every setting and its source")
    report("  sexton status              what is due, what ran, what is blocked")
    report("Ctrl-C stops the stack.")
