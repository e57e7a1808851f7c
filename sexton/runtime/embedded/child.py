"""Run a child process that has a log and a pid file, and that never outlives its parent.

The pid file of a killed parent is trusted only where it also has the process' start time and command line.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sexton.kernel.errors import SextonError
from sexton.kernel.process import CHILD_UMASK, make_directory, open_file
from sexton.runtime.embedded.ports import write_atomically

# Runs in its own interpreter before it executes the real program, as a preexec_fn may deadlock in a process with
# threads. prctl(PR_SET_PDEATHSIG = 1): the kernel ends the child when its parent is killed; a change of the user would
# clear that. If the parent died before that call, getppid() is another process.
_LAUNCH = """
import os, sys
parent, number, uid, gid = map(int, sys.argv[1:5])
if sys.platform == "linux":
    import ctypes
    prctl = ctypes.CDLL(None).prctl
if uid:
    os.chdir("/")
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if sys.platform == "linux":
    prctl(1, number, 0, 0, 0)
if os.getppid() != parent:
    sys.exit("the parent has ended")
os.execvp(sys.argv[5], sys.argv[5:])
"""
_POLL_SECONDS = 0.05
READY_SECONDS = 300.0
"""How long a program may take until it is ready: on a busy machine a cold start takes minutes."""
GRACE_SECONDS = 25.0
"""Longer than a worker's graceful shutdown, in which it records its deletions."""


class Child:
    """A program of the stack, with its log in ``logs/NAME.log`` and its pid in ``run/NAME.pid`` of a home."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        home: Path,
        env: Mapping[str, str],
        *,
        stop_with: signal.Signals = signal.SIGTERM,
        user: tuple[int, int] = (0, 0),
    ) -> None:
        """Describe a program and its whole environment; ``start`` runs it.

        ``name``: of its log and its pid file, both in ``home``. ``stop_with``: the signal after which it ends in good
        order. ``user``: the user and group that it runs as; zeros: those of this process.
        """
        self.name = name
        self._stop_with = stop_with
        self._user = user
        self.log = home / "logs" / f"{name}.log"
        self._command = list(command)
        self._env = dict(env)
        self._pid_file = home / "run" / f"{name}.pid"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id; None before the start and after the stop."""
        return self._process.pid if self._process else None

    def exit_code(self) -> int | None:
        """Return its exit code (negative: ended by that signal), or None while it runs."""
        return self._process.poll() if self._process else None

    def start(self, ready: Callable[[], bool], timeout: float = READY_SECONDS) -> float:
        """Launch it, and wait as ``await_ready`` does."""
        self.launch()
        return self.await_ready(ready, timeout)

    def launch(self) -> None:
        """Start it without waiting; the log of an earlier process stays beside the new one."""
        make_directory(self.log.parent)
        make_directory(self._pid_file.parent)
        if self.log.exists():
            self.log.replace(self.log.with_suffix(".log.1"))
        launch = (os.getpid(), self._stop_with.value, *self._user)
        with open_file(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _LAUNCH, *map(str, launch), *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                # Its own group: Ctrl-C in the terminal reaches only the parent, which stops its children in order.
                start_new_session=True,
                umask=CHILD_UMASK,
            )
        pid = self._process.pid
        record = {"pid": pid, "started": _start_time(pid), "command": self._command, "stop_with": self._stop_with}
        write_atomically(self._pid_file, json.dumps(record))

    def await_ready(self, ready: Callable[[], bool], timeout: float = READY_SECONDS) -> float:
        """Wait until ``ready()``; return the seconds it took.

        Raises:
            EmbeddedError: it ended, or was not ready after ``timeout`` seconds; with the last lines of its log.
        """
        began = time.monotonic()
        while True:
            self.check()
            if ready():
                return time.monotonic() - began
            if time.monotonic() - began > timeout:
                last_lines = self._last_lines()
                self.stop()
                raise EmbeddedError(f"{self.name} was not ready after {timeout:.0f} s{last_lines}")
            time.sleep(_POLL_SECONDS)

    def check(self) -> None:
        """Raise ``EmbeddedError`` with its exit code and the last lines of its log, if it has ended by itself."""
        code = self.exit_code()
        if code is not None:
            raise EmbeddedError(f"{self.name} ended with exit code {code}{self._last_lines()}")

    def has_logged(self, text: str) -> bool:
        """Return whether one of the last lines of its log has a text."""
        return any(text in line for line in self.tail(50))

    def tail(self, lines: int = 15) -> list[str]:
        """Return the last lines of its log."""
        if not self.log.is_file():
            return []
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - 65_536))
            return log.read().decode(errors="replace").splitlines()[-lines:]

    def kill(self) -> None:
        """Send SIGKILL and wait for its end, as in a crash."""
        if self._process:
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Send its stop signal, and after ``grace`` seconds SIGKILL, to its whole process group."""
        if self._process is None:
            return
        _signal_group(self._process.pid, self._stop_with)
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
        self._pid_file.unlink(missing_ok=True)

    def _last_lines(self) -> str:
        return "".join(f"\n  {line}" for line in [f"last lines of {self.log}:", *self.tail()])


def stop_leftovers(home: Path) -> list[str]:
    """Stop the children that a killed parent left behind in this home; return the names of those that still ran."""
    names = []
    for file in sorted((home / "run").glob("*.pid")):
        record = json.loads(file.read_text())
        deadline = time.monotonic() + GRACE_SECONDS
        if _still_runs(record):
            names.append(file.stem)
            _signal_group(record["pid"], signal.Signals(record["stop_with"]))
        while _still_runs(record):
            if time.monotonic() > deadline:
                _signal_group(record["pid"], signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        file.unlink()
    return names


def _still_runs(record: dict[str, object]) -> bool:
    """Return whether the process of a pid file still runs: with the same pid, start time and command line."""
    process = Path("/proc") / str(record["pid"])
    try:
        command = (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return False
    return _start_time(record["pid"]) == record["started"] and command == record["command"]


def _start_time(pid: object) -> str:
    """Return a process' start in clock ticks since boot (/proc/PID/stat, field 22); empty where it is unreadable."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        return


class EmbeddedError(SextonError):
    """A part of the embedded stack is missing, does not start, or died."""


def find_binary(name: str) -> str:
    """Return the path of a program: beside this Python, else in PATH; raise ``EmbeddedError`` where it is missing."""
    # Not resolved: a venv's python is a link into a directory without these programs.
    path = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if path is None:
        raise EmbeddedError(f"the program {name!r} is missing: pip install 'sexton[embedded]'")
    return path
