"""Select the tests that run on PostgreSQL: enough to send it every SQL statement of the product in two tests.

Most integration tests send the same statements with other data. `python -m tests.statements` (about 10 minutes) runs
all variants on PostgreSQL, records the statements of each with the source line that sends it, and writes
``tests/left_to_soak``: the variants whose every statement two selected tests also send. `make test` leaves these out
and `make soak` runs them. A test that is not in the list, such as a new one, runs on both databases.

Tests of races, leases, guards and the owner's contract always run, because their result depends on the database.
"""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

HERE = Path(__file__).parent
LEFT_TO_SOAK = HERE / "left_to_soak"
RECORDED = HERE.parent / ".sexton" / "statements.json"
PRODUCT = f"{HERE.parent / 'sexton'}/"
POSTGRESQL = re.compile(r"\bpostgresql\b")
ALWAYS = re.compile(r"race|lease|guard|integration/contract|schema|turns")
TIERS = ("tests/integration", "tests/museum")
TWICE = 2
HEAD = """# PostgreSQL variants that send no statement of their own: `make soak` runs them, `make test` does not.
# Written by `python -m tests.statements`.
"""
_LISTS = re.compile(r"(%\([^)]*\)s(?:::[\w\[\]]+)?)(?:, %\([^)]*\)s(?:::[\w\[\]]+)?)+")
_NAMES = re.compile(r"%\([^)]*\)s")


def left_to_soak() -> frozenset[str]:
    """Return the ids of the variants that only `make soak` runs."""
    lines = LEFT_TO_SOAK.read_text().splitlines() if LEFT_TO_SOAK.is_file() else ()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def find_missing(listed: Collection[str], collected: Collection[str]) -> list[str]:
    """Return the listed tests that do not exist, of the files that were collected."""
    files = {test.partition("::")[0] for test in collected}
    return sorted(test for test in set(listed) - set(collected) if test.partition("::")[0] in files)


class StatementRecorder:
    """A pytest plugin that records the statements each test sends to PostgreSQL, and how long the test takes."""

    def __init__(self) -> None:
        self.sent: dict[str, set[str]] = defaultdict(set)
        self.seconds: Counter[str] = Counter()
        self._test = ""
        event.listen(Engine, "before_cursor_execute", self._record)

    def _record(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if connection.dialect.name == "postgresql" and (line := _sending_line()):
            self.sent[self._test].add(f"{line} {_NAMES.sub('?', _LISTS.sub('?', statement))}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        RECORDED.parent.mkdir(exist_ok=True)
        recorded = {test: [self.seconds[test], sorted(sent)] for test, sent in self.sent.items()}
        RECORDED.write_text(json.dumps((json.loads(RECORDED.read_text()) if RECORDED.exists() else {}) | recorded))


def _sending_line() -> str:
    """Return the source line of the product that sends the statement; "" if a test itself sends it."""
    frame = sys._getframe(2)
    while frame := frame.f_back:  # type: ignore[assignment]
        file = frame.f_code.co_filename
        if file.startswith(PRODUCT) and not file.endswith("database/engine.py"):
            return f"{file.removeprefix(PRODUCT)}:{frame.f_lineno}"
    return ""


def select(recorded: Mapping[str, tuple[float, Sequence[str]]]) -> set[str]:
    """Return tests that together send every statement twice (or as often as there are tests), cheap ones first.

    Args:
        recorded: test id → its seconds and its statements.
    """
    senders = Counter(statement for _, statements in recorded.values() for statement in statements)
    missing = Counter({statement: min(TWICE, n) for statement, n in senders.items()})
    selected: set[str] = set()

    def add(test: str) -> None:
        selected.add(test)
        missing.subtract(s for s in recorded[test][1] if missing[s] > 0)

    def missing_per_second(test: str) -> float:
        seconds, statements = recorded[test]
        return sum(missing[s] > 0 for s in statements) / max(0.05, seconds)

    for test in recorded:
        if ALWAYS.search(test):
            add(test)
    while any(n > 0 for n in missing.values()):
        add(max((test for test in recorded if test not in selected), key=missing_per_second))
    return selected


def _run_tiers() -> Iterator[str]:
    """Record every tier; yield its exit code."""
    if RECORDED.exists():
        RECORDED.unlink()
    for tier in TIERS:
        command = ["-m", "pytest", tier, "-q", "-p", "tests.statements", "-k", "postgresql", "-m", "not soak or left"]
        yield f"{tier}: {subprocess.run([sys.executable, *command], cwd=HERE.parent).returncode}"


def pytest_configure(config: pytest.Config) -> None:
    """Record statements; only the runs of this module load it as a plugin (``-p tests.statements``)."""
    config.pluginmanager.register(StatementRecorder(), "statement-recorder")


def main() -> None:
    """Run every variant on PostgreSQL, and write the list."""
    print(*_run_tiers(), sep="\n")
    write_list()


def write_list() -> None:
    """Write the list from the recorded statements."""
    recorded = {
        t: (seconds, sent) for t, (seconds, sent) in json.loads(RECORDED.read_text()).items() if POSTGRESQL.search(t)
    }
    selected = select(recorded)
    LEFT_TO_SOAK.write_text(HEAD + "".join(f"{test}\n" for test in sorted(recorded.keys() - selected)))
    statements = len({s for _, sent in recorded.values() for s in sent})
    seconds = sum(recorded[test][0] for test in selected)
    left_seconds = sum(recorded[test][0] for test in recorded.keys() - selected)
    print(
        f"{statements} statements: {len(selected)} of {len(recorded)} tests selected; "
        f"{seconds:.0f} s, {left_seconds:.0f} s left out"
    )


if __name__ == "__main__":
    main()
