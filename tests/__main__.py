"""Run every tier of tests, whatever fails, and print a summary of passed, failed and skipped tests.

Four runs of pytest run side by side, the longest first, because some wait more than they work. The largest tiers are
divided into several folders. The output of a run is printed when it has ended.

`python -m tests` runs all tiers, `python -m tests unit e2e` these two, `python -m tests lint` the linters, and
`python -m tests slow` the slow tests of all tiers. A skip that `tests/expected_skips` does not list fails the run.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tests import branch_coverage
from tests.support import leaks

HERE = Path(__file__).parent
TIERS = ("unit", "integration", "activities", "replay", "workflows", "fault", "museum", "browser", "e2e")
LONGEST_FIRST = (
    "e2e",
    "fault",
    "integration/interfaces",
    "integration/check",
    "museum",
    "integration",
    "workflows",
    "browser",
    "integration/owners/catalog",
    "integration/owners",
    "fault/live",
    "integration/runtime/spark",
    "integration/wal",
    "integration/recycle",
    "integration/storage",
    "integration/replication",
    "unit",
    "activities",
    "replay",
)
"""Folders of one run each; a run leaves out the folders below it that have a run of their own."""
LINT = "lint"
"""Runs the linters; only by name, because CI runs them before the tests."""
SLOW = "slow"
"""Runs the tests that are marked so, and no others."""
CONCURRENT_RUNS = 4
USUAL_OPTIONS, SLOW_OPTIONS = ["-m", "not soak"], ["-m", "slow and not left", "--timeout=600"]
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
NO_TESTS_COLLECTED = 5
PRINTING = threading.Lock()
MEMORY = Path("/dev/shm")
SEARCH_SECRETS = bool(os.environ.get("SEARCH"))
"""Whether the tests' files stay on disk until the end and are searched for secrets then."""
MEASURE_COVERAGE = bool(os.environ.get("COVERAGE"))
"""Whether branch coverage is measured and printed for each tier."""
MEMORY_BYTES = 2 << 30
"""Free bytes of MEMORY from which on the tests' files are stored there; no test simulates a power cut."""
_DESELECTED = re.compile(r"(\d+) deselected")


@dataclass
class Result:
    """The outcome of one tier; `skipped` maps test ids to reasons."""

    tier: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    soak: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    """CPU seconds of its process and of the processes it waited for, without servers that outlive their parent."""
    output: str = ""

    def add(self, other: "Result") -> None:
        """Add the outcome of another run of the tier; the seconds are summed."""
        self.passed, self.soak, self.seconds = (
            self.passed + other.passed,
            self.soak + other.soak,
            self.seconds + other.seconds,
        )
        self.failed += other.failed
        self.skipped |= other.skipped


def main(tiers: list[str]) -> int:
    """Run these tiers, or all, and print the summary; return the exit code."""
    unknown = set(tiers) - {*TIERS, LINT, SLOW}
    if unknown:
        print(f"no such tier: {', '.join(sorted(unknown))}; there are {', '.join((*TIERS, LINT, SLOW))}")
        return 2
    slow = SLOW in tiers
    selected = [tier for tier in tiers if tier != SLOW] or TIERS
    folders = [f for f in (*LONGEST_FIRST, LINT) if f.split("/")[0] in selected]
    results = {tier: Result(tier) for tier in (*TIERS, LINT) if tier in selected}
    branch_coverage.clear()
    with temporary_directory() as scratch:
        with ThreadPoolExecutor(CONCURRENT_RUNS) as pool:
            folder_results = pool.map(lambda folder: run(folder, scratch, slow=slow), folders)
            for folder, result in zip(folders, folder_results, strict=True):
                results[folder.split("/")[0]].add(result)
        secrets = search_secrets(scratch) if SEARCH_SECRETS else []
    exit_code = summary([*results.values()])
    if MEASURE_COVERAGE:
        print(*branch_coverage.report([*results]), sep="\n")
    return exit_code or bool(secrets)


@contextmanager
def temporary_directory() -> Iterator[str]:
    """Yield a directory for the tests' files, in memory unless they are searched; "" (Python's own) without room."""
    in_memory = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES
    if not SEARCH_SECRETS and not in_memory:
        yield ""
        return
    with tempfile.TemporaryDirectory(prefix="sexton-tests-", dir=None if SEARCH_SECRETS else MEMORY) as directory:
        Path(directory).chmod(0o755)  # PostgreSQL's own user must be able to enter
        yield directory


def search_secrets(scratch: str) -> list[str]:
    """Search the files of the run for secrets; print and return the places of those found."""
    secrets, size, places = leaks.search(Path(scratch))
    print(f"\nsearched: {size / 1e6:,.0f} MB for {secrets} secrets and for tokens; found: {len(places)}")
    for place in places:
        print(f"FAILED  a secret in {place}")
    return places


def run(folder: str, scratch: str, *, slow: bool) -> Result:
    """Run a tier or one of its folders, or only its slow tests, and print its output."""
    began = time.monotonic()
    result = lint() if folder == LINT else pytest(folder, scratch, SLOW_OPTIONS if slow else USUAL_OPTIONS)
    result.seconds = time.monotonic() - began
    with PRINTING:
        print(f"\n── {folder}, {result.seconds:.1f} s, {result.cpu:.0f} s of CPU\n{result.output}", flush=True)
    return result


def lint() -> Result:
    """Run the linters; each counts as one test."""
    result = Result(LINT)
    for command in LINTERS:
        line = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        completed = subprocess.run(line, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        result.output += completed.stdout
        if completed.returncode:
            result.failed.append(" ".join(command))
            result.output += REMEDIES.get(command[0], "")
        else:
            result.passed += 1
    return result


def pytest(folder: str, scratch: str, selection: list[str]) -> Result:
    """Run pytest over a folder, with its files in ``scratch``; the counts come from its junit file."""
    result = Result(folder)
    with tempfile.TemporaryDirectory() as report_directory:
        report = Path(report_directory) / "junit.xml"
        options = [
            "-q",
            *selection,
            "--continue-on-collection-errors",
            f"--junitxml={report}",
            "-o",
            "junit_family=xunit1",
        ]
        options += [f"--ignore=tests/{other}" for other in LONGEST_FIRST if other.startswith(f"{folder}/")]
        start = [sys.executable, "-m", "pytest"]
        if MEASURE_COVERAGE:
            start = branch_coverage.command(folder.split("/")[0], "pytest")
        command = [*start, f"tests/{folder}", *options]
        environment = os.environ | ({"TMPDIR": scratch} if scratch else {})
        if SEARCH_SECRETS:
            environment |= {leaks.VARIABLE: scratch}
            log = Path(scratch) / f"log-{folder.replace('/', '-')}"
            command += [f"--log-file={log}", "--log-file-level=INFO", "-o", "tmp_path_retention_count=100"]
        with subprocess.Popen(
            command,
            cwd=HERE.parent,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                result.output += line
                if selection is USUAL_OPTIONS and (deselected := _DESELECTED.search(line)):
                    result.soak = int(deselected[1])
            _, status, usage = os.wait4(process.pid, 0)  # wait() does not return the CPU time
            process.returncode, result.cpu = os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
        if SEARCH_SECRETS:
            (Path(scratch) / f"output-{folder.replace('/', '-')}").write_text(result.output)
        if report.is_file():
            read_report(report, result)
    if process.returncode not in (0, NO_TESTS_COLLECTED) and not result.failed:
        result.failed.append(f"pytest tests/{folder} itself (exit code {process.returncode})")
    return result


def read_report(report: Path, result: Result) -> None:
    """Add the outcomes of a junit file; a test that fails in its body and in its teardown is one failure."""
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('file', case.get('classname'))}::{case.get('name')}"
        skip = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcomes[name] = "failed"
        elif skip is not None:
            # A whole module's reason is only in the text: ('FILE', LINE, 'Skipped: REASON').
            module = re.search(r"Skipped: (.+)['\"]\)", skip.text or "")
            result.skipped[name] = module[1] if module else str(skip.get("message"))
        else:
            outcomes.setdefault(name, "passed")
    result.passed = list(outcomes.values()).count("passed")
    result.failed = [name for name, outcome in outcomes.items() if outcome == "failed"]


def summary(results: list[Result]) -> int:
    """Print failures, tiers, totals and tests that were not run; return the exit code."""
    lines = (HERE / "expected_skips").read_text().splitlines()
    expected = tuple(line.split()[0] for line in lines if line.strip() and not line.startswith("#"))
    unexpected = [n for r in results for n in r.skipped if not n.startswith(expected or ("\0",))]
    failed = [name for r in results for name in r.failed]
    skipped = [reason for r in results for reason in r.skipped.values()]

    print()
    for name in failed:
        print(f"FAILED  {name}")
    for name in unexpected:
        print(f"FAILED  {name} was skipped, and tests/expected_skips does not list it")
    for r in results:
        counts = f"{r.passed:5} passed {len(r.failed):4} failed {len(r.skipped):4} skipped"
        print(f"{r.tier:10} {counts} {r.seconds:7.1f} s")
    print(f"\n{sum(r.passed for r in results)} passed, {len(failed)} failed, {len(skipped)} skipped")
    for reason, count in Counter(skipped).most_common():
        print(f"not run: {count}, because {reason}")
    if soak := sum(r.soak for r in results):
        print(f"not run: {soak}, because they are slow (make slow) or add no SQL coverage on PostgreSQL (make soak)")
    return 1 if failed or unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
