"""What the viewer sees: plain lines with seconds, the commands that were run, and the numbers that disagree."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COMMAND_SECONDS = 60
SEXTON = "from sexton.interfaces.cli.main import main; main()"
"""What the script ``sexton`` does, with the Python that runs us."""


class DemoFailed(Exception):
    """The story cannot go on."""


class Console:
    """One viewer's screen; time is counted from its making."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.disagreements: list[str] = []
        self._environment: Mapping[str, str] = {}

    def connect(self, home: Path, environment: Mapping[str, str]) -> None:
        """Run commands against this stack from now on, whatever the viewer's own environment says."""
        own = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._environment = own | dict(environment) | {"SEXTON_HOME": str(home)}

    def say(self, line: str = "") -> None:
        """Print one line with the seconds so far."""
        print(f"{time.monotonic() - self._began:6.1f} s  {line}".rstrip(), flush=True)

    def beat(self, title: str) -> None:
        """Begin a part of the story."""
        print(flush=True)
        self.say(title)

    def same(self, what: str, expected: object, found: object) -> None:
        """Hold a number against an independent one; a disagreement ends the demo with exit code 1."""
        if expected == found:
            return
        line = f"{what}: expected {_short(expected)}, found {_short(found)}{_difference(expected, found)}"
        self.disagreements.append(line)
        self.say(f"  DISAGREES  {line}")

    @contextmanager
    def began(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Begin one real ``sexton`` command, shown to the viewer; it does not outlive the block."""
        self.say(f"$ sexton {shlex.join(arguments)}")
        process = subprocess.Popen(
            [sys.executable, "-c", SEXTON, *arguments],
            env=dict(self._environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def ended(self, process: subprocess.Popen[str], codes: Collection[int] = (0,)) -> str:
        """Wait for a command that was begun; return what it printed.

        Raises:
            DemoFailed: it took too long, or ended with a code that is not in ``codes``; with what it said.
        """
        assert isinstance(process.args, list)
        shown = f"sexton {shlex.join(process.args[3:])}"
        try:
            out, err = process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            log = Path(self._environment["SEXTON_HOME"]) / "logs" / "worker.log"
            raise DemoFailed(f"`{shown}` took over {COMMAND_SECONDS} s; see {log}") from None
        if process.returncode not in codes:
            raise DemoFailed(f"`{shown}` ended with exit code {process.returncode}:\n{(out + err).strip()}")
        return out

    def sexton(self, *arguments: str, codes: Collection[int] = (0,)) -> str:
        """Run one command to its end; return what it printed. Raises as ``ended`` does."""
        with self.began(*arguments) as process:
            return self.ended(process, codes)

    def sexton_json(self, *arguments: str, codes: Collection[int] = (0,)) -> Any:
        """Run a command with ``--json``; return what it printed, parsed."""
        return json.loads(self.sexton(*arguments, "--json", codes=codes))


def _short(value: object) -> str:
    if isinstance(value, Collection) and not isinstance(value, str):
        return f"{len(value):,} entries"
    return f"{value:,}" if isinstance(value, int) else repr(value)


def _difference(expected: object, found: object) -> str:
    """Return a few of the entries in which two collections differ."""
    if not isinstance(expected, Mapping | set) or not isinstance(found, Mapping | set):
        return ""
    one, other = (set(v.items()) if isinstance(v, Mapping) else set(v) for v in (expected, found))
    missing, extra = sorted(one - other)[:3], sorted(other - one)[:3]
    return f"; missing for example {missing}, too many for example {extra}"
