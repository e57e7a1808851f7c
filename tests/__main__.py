"""Run every tier, stop at nothing, and end with what passed, what failed and what was not run.

Four runs of pytest go side by side, the longest first: some wait more than they work. The largest tiers are parted
into several. What a run prints is shown when it has ended.

`python -m tests` runs all, `python -m tests unit e2e` those two. A skip that
`tests/expected_skips` does not list fails the run.
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

from tests.support import leaks

HERE = Path(__file__).parent
TIERS = ("lint", "unit", "integration", "activities", "replay", "workflows", "fault", "e2e")
LONGEST_FIRST = (
    "integration",
    "integration/runtime/spark",
    "fault",
    "e2e",
    "integration/owners/catalog",
    "fault/live",
    "fault/incidents",
    "workflows",
    "integration/wal",
    "integration/recycle",
    "integration/storage",
    "integration/replication",
    "unit",
    "lint",
    "activities",
    "replay",
)
"""Folders; one that is in another is left out there."""
AT_ONCE = 4
LINTERS = (
    ["ruff", "check", "."],
    ["ruff", "format", "--check", "."],
    ["mypy"],
    ["lint-imports"],
    ["codespell"],
)
"""Programs of the virtual environment."""
NO_TESTS_COLLECTED = 5
PRINTING = threading.Lock()
MEMORY = Path("/dev/shm")
SEARCH = bool(os.environ.get("SEARCH"))
"""Whether all that the run leaves is kept, on disk, and searched for secrets at its end."""
FAST = ""
"""Where the tests' files go: in memory where there is room, as no test pulls the plug; else where Python likes."""
ROOM = 2 << 30
_DESELECTED = re.compile(r"(\d+) deselected")


@dataclass
class Result:
    """What one tier did; `skipped` maps test ids to reasons."""

    tier: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    soak: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    """CPU seconds of its process and of those it waited for; servers that outlive their parent are not among them."""
    said: str = ""

    def add(self, other: "Result") -> None:
        """Add what another run of the tier did; ``seconds``: of both together."""
        self.passed, self.soak, self.seconds = (
            self.passed + other.passed,
            self.soak + other.soak,
            self.seconds + other.seconds,
        )
        self.failed += other.failed
        self.skipped |= other.skipped


def main(wanted: list[str]) -> int:
    """Run the tiers and print the summary; the exit code of the run."""
    unknown = set(wanted) - set(TIERS)
    if unknown:
        print(f"no such tier: {', '.join(sorted(unknown))}; there are {', '.join(TIERS)}")
        return 2
    chosen = [t for t in wanted or TIERS if t == "lint" or (HERE / t).is_dir()]
    folders = [f for f in LONGEST_FIRST if f.split("/")[0] in chosen]
    done = {tier: Result(tier) for tier in TIERS if tier in chosen}
    with in_memory():
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for folder, result in zip(folders, pool.map(run, folders), strict=True):
                done[folder.split("/")[0]].add(result)
        found = searched() if SEARCH else []
    return summary([*done.values()]) or bool(found)


@contextmanager
def in_memory() -> Iterator[None]:
    """Give the tests a directory in memory while they run, where that is possible."""
    global FAST
    if SEARCH:
        with tempfile.TemporaryDirectory(prefix="sexton-tests-") as FAST:
            Path(FAST).chmod(0o755)
            yield
        return
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="sexton-tests-", dir=MEMORY) as FAST:
        Path(FAST).chmod(0o755)  # PostgreSQL's own user must pass
        yield


def searched() -> list[str]:
    """Look for secrets in all that the run has left, and say what was found."""
    secrets, size, found = leaks.search(Path(FAST))
    print(f"\nsearched: {size / 1e6:,.0f} MB for {secrets} secrets and for tokens; found: {len(found)}")
    for line in found:
        print(f"FAILED  a secret in {line}")
    return found


def run(folder: str) -> Result:
    """Run a tier, or a part of one, and show what it said."""
    began = time.monotonic()
    result = lint() if folder == "lint" else pytest(folder)
    result.seconds = time.monotonic() - began
    with PRINTING:
        print(f"\n── {folder}, {result.seconds:.1f} s, {result.cpu:.0f} s of CPU\n{result.said}", flush=True)
    return result


def lint() -> Result:
    """Each linter counts as one test."""
    result = Result("lint")
    for command in LINTERS:
        line = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        ran = subprocess.run(line, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        result.said += ran.stdout
        if ran.returncode:
            result.failed.append(" ".join(command))
        else:
            result.passed += 1
    return result


def pytest(folder: str) -> Result:
    """One pytest process over a folder; its counts come from its junit file."""
    result = Result(folder)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "junit.xml"
        options = [
            "-q",
            "-m",
            "not soak",
            "--continue-on-collection-errors",
            f"--junitxml={report}",
            "-o",
            "junit_family=xunit1",
        ]
        options += [f"--ignore=tests/{other}" for other in LONGEST_FIRST if other.startswith(f"{folder}/")]
        command = [sys.executable, "-m", "pytest", f"tests/{folder}", *options]
        out = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
        out["env"] = os.environ | ({"TMPDIR": FAST} if FAST else {})
        if SEARCH:
            out["env"] |= {leaks.VARIABLE: FAST}
            log = Path(FAST) / f"log-{folder.replace('/', '-')}"
            command += [f"--log-file={log}", "--log-file-level=INFO", "-o", "tmp_path_retention_count=100"]
        with subprocess.Popen(command, cwd=HERE.parent, **out) as process:
            assert process.stdout is not None
            for line in process.stdout:
                result.said += line
                if found := _DESELECTED.search(line):
                    result.soak = int(found[1])
            _, status, used = os.wait4(process.pid, 0)  # wait() does not tell what it used
            process.returncode, result.cpu = os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        if SEARCH:
            (Path(FAST) / f"said-{folder.replace('/', '-')}").write_text(result.said)
        if report.is_file():
            read(report, result)
    if process.returncode not in (0, NO_TESTS_COLLECTED) and not result.failed:
        result.failed.append(f"pytest tests/{folder} itself (exit code {process.returncode})")
    return result


def read(report: Path, result: Result) -> None:
    """Take the outcomes of a junit file; a test that fails in its body and again in its teardown is one failure."""
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
    """Print the last lines: tiers, failures, totals, and what was not run."""
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
        print(f"not run: {soak}, because they run long, or say nothing new to PostgreSQL; `make soak` runs them")
    return 1 if failed or unexpected else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
