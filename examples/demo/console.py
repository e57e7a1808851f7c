"""Print the story in lines of at most 80 columns, run real ``sexton`` commands, and collect numbers that disagree."""

import json
import os
import shlex
import subprocess
import sys
import textwrap
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

WIDTH = 79
INDENT = " " * 8
COMMAND_SECONDS = 600
SEXTON = "from sexton.interfaces.cli.main import main; main()"
"""The script ``sexton``, run by this process's Python."""


class DemoFailed(Exception):
    """The story cannot go on."""


class Console:
    """The viewer's screen; seconds are counted from its construction."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self.disagreements: list[str] = []
        self._environment: Mapping[str, str] = {}

    def connect(self, home: Path, environment: Mapping[str, str]) -> None:
        """Run every later command against this stack, whatever the viewer's own environment contains."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        self._environment = inherited | dict(environment) | {"SEXTON_HOME": str(home)}

    def act(self, title: str) -> None:
        """Begin an act: one line with the seconds so far."""
        print(f"\n{time.monotonic() - self._began:4.0f} s  {title}", flush=True)

    def say(self, text: str) -> None:
        """Print a sentence below the act's title."""
        print(_wrapped(text), flush=True)

    def show(self, output: str) -> None:
        """Print what a command printed, line by line."""
        for line in output.splitlines():
            if text := " ".join(line.split()).strip("─ "):
                self.say(f"| {text}")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Print rows of cells in aligned columns; the first row is the heading."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print(f"  {'  '.join(cells)}".rstrip(), flush=True)

    def same(self, label: str, expected: object, actual: object) -> None:
        """Compare a number with an independent one; if they differ, the demo ends with exit code 1."""
        if expected == actual:
            return
        line = f"{label}: expected {_short(expected)}, got {_short(actual)}{_difference(expected, actual)}"
        self.disagreements.append(line)
        self.say(f"DISAGREES: {line}")

    @contextmanager
    def started(self, *arguments: str, shown: bool = True) -> Iterator[subprocess.Popen[str]]:
        """Start one real ``sexton`` command and show it to the viewer; it does not outlive the block."""
        if shown:
            command = _wrapped(f"$ sexton {shlex.join(arguments)}", WIDTH - 2)
            print(command.replace("\n", " \\\n"), flush=True)
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

    def output(self, process: subprocess.Popen[str], codes: Collection[int] = (0,)) -> str:
        """Wait for the end of a started command; return what it printed.

        Raises:
            DemoFailed: it took too long, or its exit code is not in ``codes``; with what it printed.
        """
        assert isinstance(process.args, list)
        command = f"sexton {shlex.join(process.args[3:])}"
        try:
            out, err = process.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            logs = Path(self._environment["SEXTON_HOME"]) / "logs"  # of each worker, and of Spark
            raise DemoFailed(f"`{command}` took over {COMMAND_SECONDS} s; see {logs}") from None
        if process.returncode not in codes:
            raise DemoFailed(f"`{command}` ended with exit code {process.returncode}: {(out + err).strip()}")
        return out

    def sexton(self, *arguments: str, codes: Collection[int] = (0,)) -> str:
        """Run one command to its end; return what it printed. Raises as ``output`` does."""
        with self.started(*arguments) as process:
            return self.output(process, codes)

    def sexton_json(self, *arguments: str, codes: Collection[int] = (0,)) -> Any:
        """Run a command with ``--json``; return what it printed, parsed."""
        return json.loads(self.sexton(*arguments, "--json", codes=codes))

    def together(self, *commands: Sequence[str], shown: bool = True) -> list[str]:
        """Run commands at the same time; return what they printed, in their order. Raises as ``output`` does."""
        with ExitStack() as stack:
            processes = [stack.enter_context(self.started(*arguments, shown=shown)) for arguments in commands]
            return [self.output(process) for process in processes]

    def tokens(self, *scopes: str) -> list[str]:
        """Create a token of each scope for the demo's own programs; the viewer does not see it."""
        words = ("token", "create", "--days", "1", "--json", "--scope")
        outputs = self.together(*((*words, scope) for scope in scopes), shown=False)
        return [str(json.loads(output)["secret"]) for output in outputs]


def _wrapped(text: str, width: int = WIDTH) -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=INDENT,
        subsequent_indent=INDENT + "  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _short(value: object) -> str:
    if isinstance(value, Collection) and not isinstance(value, str):
        return f"{len(value):,} entries"
    return f"{value:,}" if isinstance(value, int) else repr(value)


def _difference(expected: object, actual: object) -> str:
    """Return a few of the entries in which two collections differ."""
    if not isinstance(expected, Mapping | set) or not isinstance(actual, Mapping | set):
        return ""
    expected_entries, actual_entries = (
        set(v.items()) if isinstance(v, Mapping) else set(v) for v in (expected, actual)
    )
    missing, extra = sorted(expected_entries - actual_entries)[:3], sorted(actual_entries - expected_entries)[:3]
    return f"; missing for example {missing}, too many for example {extra}"
