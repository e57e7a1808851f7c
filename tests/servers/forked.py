"""Start programs as forks of a process that has imported their modules: 0.1 s of CPU instead of 1.6.

A forked program that is killed, frozen or disconnected behaves as any other process.
"""

import ctypes
import multiprocessing
import os
import runpy
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.support.eventually import PATIENCE_SECONDS

MODULES = ("sexton.interfaces.cli.main", "sexton.interfaces.worker.process", "tests.fault.live.dying_worker")
_SET_PARENT_DEATH_SIGNAL = 1
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__, *MODULES])


class Forked:
    """A process of ``python -m MODULE ARGUMENTS`` with its own environment; its log is `logs/NAME.log` of a home."""

    def __init__(self, name: str, module: str, arguments: Sequence[str], home: Path, env: Mapping[str, str]) -> None:
        self.name, self.log = name, home / "logs" / f"{name}.log"
        run_arguments = (module, list(arguments), dict(env), str(self.log))
        self._process: ForkServerProcess = _CONTEXT.Process(target=_run, args=run_arguments, name=name, daemon=True)

    @property
    def pid(self) -> int | None:
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return its exit code (negative: the signal that ended it), or None while it runs."""
        return self._process.exitcode if self._process.pid else None

    def start(self, ready: Callable[[], bool]) -> None:
        """Start the process and wait until `ready()`."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.log.write_bytes(b"")
        until = time.monotonic() + PATIENCE_SECONDS
        self._process.start()
        while not ready():
            assert self.exit_code() is None, f"{self.name} ended: {self.tail(15)}"
            assert time.monotonic() < until, f"{self.name} was not ready after {PATIENCE_SECONDS} s: {self.tail(15)}"
            time.sleep(0.05)

    def tail(self, lines: int) -> list[str]:
        """Return the last lines of its log."""
        return self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []

    def signal(self, which: signal.Signals) -> None:
        assert self.pid is not None
        os.kill(self.pid, which)

    def stop(self) -> int | None:
        """Send SIGTERM; return the exit code, or None if the process still runs."""
        self.signal(signal.SIGTERM)
        self._process.join(PATIENCE_SECONDS)
        return self.exit_code()

    def kill(self) -> None:
        """Send SIGKILL, and wait until the process is dead."""
        if self.pid is not None:
            self._process.kill()
            self._process.join()


def _run(module: str, arguments: list[str], env: dict[str, str], log: str) -> None:
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    log_file = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(log_file, 1)
    os.dup2(log_file, 2)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
