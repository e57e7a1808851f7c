"""Which tests PostgreSQL needs: enough that every statement the product can send is sent to it by two of them.

Most integration tests ask the same statements other questions, and a round is a hundred of them. What SQLite has
answered, PostgreSQL need not be asked fifty times: `python -m tests.statements` (about 10 minutes) runs all variants
on PostgreSQL, notes the statements of each with the line that sends it, and writes ``tests/left_to_soak``: those that
send nothing which two others, kept, do not send as well. `make test` leaves these out and `make soak` runs them. A
test that is not in the list runs on both databases, so a new one does.

Races, leases, guards and the owner's contract are never left out: there it is the database that decides.
"""

import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

HERE = Path(__file__).parent
LEFT = HERE / "left_to_soak"
NOTED = HERE.parent / ".sexton" / "statements.json"
PRODUCT = f"{HERE.parent / 'sexton'}/"
POSTGRESQL = re.compile(r"\bpostgresql\b")
ALWAYS = re.compile(r"race|lease|guard|integration/contract|schema|turns")
TIERS = ("tests/integration", "tests/fault/incidents")
TWICE = 2
HEAD = """# Variants on PostgreSQL whose statements others send to it too: `make soak` runs them, `make test` does not.
# Written by `python -m tests.statements`.
"""
_LISTS = re.compile(r"(%\([^)]*\)s(?:::[\w\[\]]+)?)(?:, %\([^)]*\)s(?:::[\w\[\]]+)?)+")
_NAMES = re.compile(r"%\([^)]*\)s")


def left() -> frozenset[str]:
    """Return the ids of the variants that are left to `make soak`."""
    lines = LEFT.read_text().splitlines() if LEFT.is_file() else ()
    return frozenset(line for line in lines if line and not line.startswith("#"))


class Notes:
    """A plugin of pytest that notes what each test sends to PostgreSQL, and how long it takes."""

    def __init__(self) -> None:
        self.sent: dict[str, set[str]] = defaultdict(set)
        self.seconds: Counter[str] = Counter()
        self._test = ""
        event.listen(Engine, "before_cursor_execute", self._statement)

    def _statement(self, connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if connection.dialect.name == "postgresql" and (line := _sender()):
            self.sent[self._test].add(f"{line} {_NAMES.sub('?', _LISTS.sub('?', statement))}")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        NOTED.parent.mkdir(exist_ok=True)
        noted = {test: [self.seconds[test], sorted(sent)] for test, sent in self.sent.items()}
        NOTED.write_text(json.dumps((json.loads(NOTED.read_text()) if NOTED.exists() else {}) | noted))


def _sender() -> str:
    """Return the line of the product that sends a statement; empty where a test itself does."""
    frame = sys._getframe(2)
    while frame := frame.f_back:  # type: ignore[assignment]
        file = frame.f_code.co_filename
        if file.startswith(PRODUCT) and not file.endswith("database/engine.py"):
            return f"{file.removeprefix(PRODUCT)}:{frame.f_lineno}"
    return ""


def needed(noted: Mapping[str, tuple[float, Sequence[str]]]) -> set[str]:
    """Return tests that together send every statement twice (or as often as there are tests), cheap ones first."""
    wanted = Counter(statement for _, sent in noted.values() for statement in sent)
    wanted = Counter({statement: min(TWICE, n) for statement, n in wanted.items()})
    kept: set[str] = set()

    def keep(test: str) -> None:
        kept.add(test)
        wanted.subtract(s for s in noted[test][1] if wanted[s] > 0)

    for test in noted:
        if ALWAYS.search(test):
            keep(test)
    while any(n > 0 for n in wanted.values()):
        rest = (test for test in noted if test not in kept)
        keep(max(rest, key=lambda t: sum(wanted[s] > 0 for s in noted[t][1]) / max(0.05, noted[t][0])))
    return kept


def _ran() -> Iterator[str]:
    if NOTED.exists():
        NOTED.unlink()
    for tier in TIERS:
        command = ["-m", "pytest", tier, "-q", "-p", "tests.statements", "-k", "postgresql", "-m", "not soak or left"]
        yield f"{tier}: {subprocess.run([sys.executable, *command], cwd=HERE.parent).returncode}"


def pytest_configure(config: pytest.Config) -> None:
    """Take notes: this module is the plugin of its own runs alone (``-p tests.statements``)."""
    config.pluginmanager.register(Notes(), "statements-notes")


def main() -> None:
    """Run everything on PostgreSQL, and write the list anew."""
    print(*_ran(), sep="\n")
    choose()


def choose() -> None:
    """Write the list by the notes that are there."""
    noted = {t: (seconds, sent) for t, (seconds, sent) in json.loads(NOTED.read_text()).items() if POSTGRESQL.search(t)}
    kept = needed(noted)
    LEFT.write_text(HEAD + "".join(f"{test}\n" for test in sorted(noted.keys() - kept)))
    of = len({s for _, sent in noted.values() for s in sent})
    kept_s, left_s = (sum(noted[t][0] for t in some) for some in (kept, noted.keys() - kept))
    print(f"{of} statements: {len(kept)} of {len(noted)} tests kept; {kept_s:.0f} s, {left_s:.0f} s left out")


if __name__ == "__main__":
    main()
