"""`make demo` tells its story in 80 columns, its commands and pages exist, and no server outlives it."""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from examples.demo.console import Console, DemoFailed
from tests.support.eventually import PATIENCE_SECONDS
from tests.surroundings import POISON

ROOT = Path(__file__).parents[2]
COLUMNS = 80
AGREES = "Every number agrees"
STOPPED = "Every server is stopped."
STAYS_UP = "  The stack stays up. Ctrl-C stops it."
URL_OR_COMMAND = re.compile(r"https?://|\bsexton [a-z]|\bexport ")


def _environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in (os.environ | POISON).items() if not name.startswith("SEXTON_")}
    return own | {"SEXTON_HOME": str(home), "PYTHONPATH": str(ROOT)}


@contextmanager
def _demo(home: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the demo without a terminal."""
    command = [sys.executable, "-m", "examples.demo", *arguments]
    process = subprocess.Popen(
        command, cwd=ROOT, env=_environment(home), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()  # it stops its servers, which a SIGKILL would not
        process.communicate(timeout=PATIENCE_SECONDS)


def _read_until(process: subprocess.Popen[str], beginning: str) -> list[str]:
    """Read lines up to the first one that begins with a text, which must come."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if lines[-1].startswith(beginning):
            return lines
    raise AssertionError("\n".join(lines[-40:]))


def _run_to_end(home: Path, *arguments: str) -> list[str]:
    with _demo(home, *arguments) as process:
        output, _ = process.communicate(timeout=1000)
        assert process.returncode == 0, output[-4_000:]
        return output.splitlines()


def _assert_fits(lines: list[str]) -> None:
    assert [line for line in lines if len(line) > COLUMNS] == []


def _assert_ends_silently(lines: list[str]) -> None:
    """With ``--exit`` nothing after the verdict refers to a server, as all of them are stopped."""
    ending = lines[next(n for n, line in enumerate(lines) if line.endswith(" s  Verdict")) :]
    assert AGREES in ending[1]
    assert ending[-1].strip() == STOPPED
    assert [line for line in ending if URL_OR_COMMAND.search(line)] == []


def _assert_pages_exist(lines: list[str]) -> None:
    pages = [page for line in lines for page in re.findall(r"  (\S+\.md)$", line)]
    assert pages
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []


def _server_ids(home: Path) -> list[int]:
    """Return the processes whose command line or environment refers to a home."""
    ids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if str(home).encode() in words and int(process.name) != os.getpid():
            ids.append(int(process.name))
    return ids


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory for the stack that no other process refers to; its path is short, as the demo prints it."""
    with tempfile.TemporaryDirectory(prefix="demo-") as directory:
        yield Path(directory) / "home"


@pytest.mark.soak  # CI runs `make demo` itself, which fails where a number does not agree
@pytest.mark.timeout(900)
def test_story_of_files_is_told_to_its_end(home: Path) -> None:
    with _demo(home) as process:
        lines = _read_until(process, STAYS_UP)
        key = lines[next(n for n, line in enumerate(lines) if "KEY in the table" in line) + 1].strip()
        table = lines[next(n for n, line in enumerate(lines) if "What you saw" in line) + 1 :]
        commands = [match[1] for line in table if (match := re.search(r"  (sexton .+?)  ", line))]
        outputs = {command: _sexton(home, command.replace("KEY", key)) for command in commands}
        process.send_signal(signal.SIGINT)
        after, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 0, after
    assert STOPPED in after
    assert not URL_OR_COMMAND.search(after), after
    assert "exit code" not in after, "the intended kill was reported as a crash"
    assert _server_ids(home) == []
    _assert_fits(lines)
    _assert_pages_exist(table)
    assert any("http://" in line and "Temporal UI" in line for line in lines[:10])
    assert any(AGREES in line for line in lines)
    assert sum(line.endswith("Fear: Sexton silently stops deleting") for line in lines) == 1
    assert any("the new worker continues the deletion" in line for line in lines)
    assert any(re.search(r"\| hold \d+: 5 marks", line) for line in lines)
    findings = [match[1] for line in lines if (match := re.match(r" {8}\| (LOST|ORPHAN|[A-Z_]{6,}) \S+/", line))]
    assert sorted(findings) == ["LOST", "ORPHAN"]
    assert any("live files: compared on Spark" in line for line in lines)
    assert any("Spark's executors deleted exactly the 2,000 objects" in line for line in lines)
    [shown] = re.findall(r"(?ms)^```\n( {8}kill .*?)^```$", (ROOT / "README.md").read_text())
    seen = {re.sub(r"\d+", "N", line) for line in lines}
    assert [line for line in shown.splitlines() if re.sub(r"\d+", "N", line) not in seen] == []
    assert len(commands) == 7
    assert "deleted" in outputs["sexton why KEY"]
    assert "audit" in outputs["sexton blockers"]


def _sexton(home: Path, command: str) -> str:
    """Run a command that the demo printed, as its reader does; return the output."""
    program, *arguments = shlex.split(command)
    result = subprocess.run(
        [Path(sys.executable).with_name(program), *arguments],
        cwd=ROOT,
        env=_environment(home),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert result.returncode == 0, command + result.stdout + result.stderr
    return result.stdout


TOPIC, LAKE = "3,149 of 3,660 entries are purged", "events is whole"
ALL = ("the new worker continues", TOPIC, "all copies are the same", LAKE)


@pytest.mark.parametrize(
    ("part", "told"),
    [
        pytest.param(["--part", "wal"], [TOPIC], marks=pytest.mark.slow),
        pytest.param(["--part", "catalog"], [LAKE], marks=pytest.mark.slow),
        pytest.param(["--all"], ALL, marks=[pytest.mark.soak, pytest.mark.timeout(1200)]),
    ],
)
def test_parts_end_without_links(home: Path, part: list[str], told: Sequence[str]) -> None:
    lines = _run_to_end(home, *part, "--exit")

    _assert_fits(lines)
    _assert_ends_silently(lines)
    _assert_pages_exist(lines)
    assert [text for text in told if not any(text in line for line in lines)] == []
    assert part[-1] != "wal" or not any("objects" in line for line in lines), "the part shows files, too"
    assert _server_ids(home) == []


@pytest.mark.slow
def test_ducklake_is_shown_again_after_a_run_that_left_a_file(home: Path) -> None:
    _run_to_end(home, "--part", "ducklake", "--exit")
    for shared in home.rglob("shared*.parquet"):
        shared.with_name("left.parquet").write_bytes(b"by a merge that failed")

    lines = _run_to_end(home, "--part", "ducklake", "--exit")

    _assert_ends_silently(lines)
    assert any("merged files are gone" in line for line in lines)


@pytest.mark.slow
def test_ctrl_c_in_the_middle_leaves_no_server(home: Path) -> None:
    with _demo(home) as process:
        _read_until(process, "        Temporal UI")
        _read_until(process, "        $ sexton instance add")
        assert _server_ids(home)
        process.send_signal(signal.SIGINT)
        after, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert re.fullmatch(r"\s*\d+ s  Interrupted; stopping\s+Every server is stopped\.\s*", after), after
    assert _server_ids(home) == []


def test_command_that_takes_too_long_names_the_logs_of_all(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("examples.demo.console.COMMAND_SECONDS", 0)
    console = Console()
    console.connect(home, {})

    with console.started("status", shown=False) as command, pytest.raises(DemoFailed, match=f"; see {home}/logs$"):
        console.output(command)


@pytest.mark.parametrize("arguments", [["--part", "files", "--all"], ["--part", "tapes"], ["--files", "100"]])
def test_wrong_arguments_start_nothing(home: Path, arguments: list[str]) -> None:
    with _demo(home, *arguments) as process:
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 2
    assert "usage: python -m examples.demo" in output
    assert "Traceback" not in output
    assert not home.exists()
