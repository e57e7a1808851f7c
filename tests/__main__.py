"""Run the linters beside the rest, repeat what failed, and end with what was not tested: ``make test``.

``python -m tests`` runs everything but slow tests, with ``CI=true`` those too; ``python -m tests slow`` runs those
alone, ``python -m tests lint`` the linters. Further words are paths or options of pytest: ``make test TESTS="tests/unit
-k hold"``.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from tests import machine, surroundings
from tests.support import downloads

ROOT = Path(__file__).parents[1]
CI = bool(os.environ.get("CI"))
LINTERS = (
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mypy"],
    ["lint-imports"],
    ["codespell"],
)
"""Programs of the virtual environment, with arguments."""
REMEDIES = {
    "lint-imports": "The import law is in docs/architecture.md. Pass the object in from sexton/runtime/stores.py, or "
    "move what both need down, to sexton/marks/ or sexton/database/.\n"
}
"""By linter: what to do when it fails."""
MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 << 30
"""Free bytes of MEMORY from which on the tests' files are stored there; no test simulates a power cut."""
WORKERS = str(min(12, 3 * len(os.sched_getaffinity(0))))
"""Three for each core, because many tests wait more than they work; each needs some 2 GiB."""
REPEATED = 20
"""So many failed tests are repeated; when more fail, the machine is not the reason."""
ACCEPTED_IN_CI = 3
"""So many tests may fail beside others and pass alone."""
FAILURES = (1, 2)
"""Exit codes of pytest: tests failed, or the run was interrupted."""
say_now = partial(print, flush=True)


def main(words: Sequence[str]) -> int:
    """Run what the words name; return the exit code."""
    began = time.monotonic()
    if "lint" in words:
        return lint()
    said: list[str] = []
    marks = "slow and not soak" if "slow" in words else "not soak" if CI else "not soak and not slow"
    options = [word for word in words if word != "slow"]
    with temporary_directory() as scratch, surroundings.poisoned() as poisoned, ThreadPoolExecutor(2) as beside:
        linting = None if words else beside.submit(lint, said.append)
        compiling = None if words else beside.submit(compile_tests)
        machine.prepare()
        downloads.fetch()
        if compiling:
            compiling.result()
        environment = (poisoned if CI else os.environ) | ({"TMPDIR": scratch} if scratch else {})
        code, outcomes = pytest(["-n", WORKERS, "-m", marks, *options], environment)
        failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
        passed_alone = [name for name in failed[:REPEATED] if len(failed) <= REPEATED and alone(name, environment)]
        linted = linting.result() if linting else 0
    print("", *said, sep="\n")
    failed = [name for name in failed if name not in passed_alone]
    return summary(outcomes, failed, passed_alone, began) or linted or (code not in (0, *FAILURES))


def lint(say: Callable[[str], object] = say_now) -> int:
    """Run the linters, and say what they found; return the exit code."""
    failed = 0
    for command in LINTERS:
        line = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        ran = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        say(f"{' '.join(command)}: {'failed' if ran.returncode else 'ok'}")
        if ran.returncode:
            failed = 1
            say(ran.stdout + REMEDIES.get(command[0], ""))
    return failed


def compile_tests() -> None:
    """Store the tests' bytecode, which in a new clone each process of the run would make for itself: 6 s of CPU."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


@contextmanager
def temporary_directory() -> Iterator[str]:
    """Yield a directory for the tests' files, in memory; "" (Python's own) where there is no room."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES):
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="sexton-tests-", dir=MEMORY, ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)  # PostgreSQL's own user must be able to enter
        yield directory


def pytest(options: Sequence[str], environment: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Run pytest; return its exit code, and of each test "passed", "failed" or the reason why it was skipped."""
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "junit.xml"
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", "-o", "junit_family=xunit1", *options]
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
        return code, read_report(report) if report.is_file() else {}


def read_report(report: Path) -> dict[str, str]:
    """Return the outcomes of a junit file; a test that fails in its body and in its teardown is one failure."""
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('file', case.get('classname'))}::{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes[name] = "failed"
        elif skip is not None and skip.get("type") != "pytest.xfail":
            # A whole module's reason is only in the text: ('FILE', LINE, 'Skipped: REASON').
            module = re.search(r"Skipped: (.+)['\"]\)", skip.text or "")
            outcomes[name] = module[1] if module else str(skip.get("message"))
        else:
            outcomes.setdefault(name, "passed")
    return outcomes


def alone(name: str, environment: dict[str, str]) -> bool:
    """Repeat a failed test by itself; return whether it passed."""
    print(f"\nagain, alone: {name}", flush=True)
    return pytest(["-n", "0", name], environment)[0] == 0


def summary(outcomes: dict[str, str], failed: list[str], passed_alone: list[str], began: float) -> int:
    """Print what failed, the totals and what was not tested; return the exit code."""
    skipped = {name: why for name, why in outcomes.items() if why not in ("passed", "failed")}
    unexpected = [name for name, why in skipped.items() if not why.startswith(machine.REASON)]
    print()
    for name in failed:
        print(f"FAILED  {name}")
    for name in passed_alone:
        print(f"FAILED, and passed alone  {name}")
    for name in unexpected:
        print(f"FAILED  {name} was skipped: {skipped[name]}; use tests.machine.need")
    for why, count in Counter(skipped.values()).most_common():
        print(f"not tested: {count} tests, {why}")
    for line in machine.untested():
        print(f"not tested: {line}")
    passed = list(outcomes.values()).count("passed") + len(passed_alone)
    print(f"\n{passed} passed, {len(failed) + len(unexpected)} failed, {len(skipped)} skipped")
    print(f"in {(time.monotonic() - began) / 60:.1f} minutes")
    if failed or unexpected or not outcomes:
        return 1
    return int(len(passed_alone) > (ACCEPTED_IN_CI if CI else 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
