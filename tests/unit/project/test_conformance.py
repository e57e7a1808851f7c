"""The page docs/conformance.md and the ids in test names agree.

`python -m tests.unit.project.test_conformance --write` updates the page's column of tests.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "conformance.md"
TESTS = ROOT / "tests"
COMMAND = "python -m tests.unit.project.test_conformance --write"
OPEN = "*open*"
_TEST = re.compile(r"(?m)^\s*(?:async )?def (test_[rwpbck]\d\d_\w+)\(")
_IDS = re.compile(r"([rwpbck]\d\d)_(?:(to)_(?=[rwpbck]\d\d_))?")
_ROW = re.compile(r"(?m)^\| ([RWPBCK]\d\d) \| (.+?) \| ?(.*?) ?\|$")


def ids(test: str) -> list[str]:
    """Return the ids at the beginning of a test's name: `test_k01_k03_…` has two, `test_k01_to_k09_…` nine."""
    rest, case_ids, span = test.removeprefix("test_"), list[str](), False
    while match := _IDS.match(rest):
        id_ = match[1].upper()
        first = int(case_ids[-1][1:]) + 1 if span else int(id_[1:])
        case_ids += [f"{id_[0]}{number:02}" for number in range(first, int(id_[1:]) + 1)]
        rest, span = rest[match.end() :], match[2] is not None
    return case_ids


def proofs() -> dict[str, list[str]]:
    """Return the tests of each id, as `file: function`, sorted."""
    tests: dict[str, list[str]] = {}
    for file in sorted(TESTS.rglob("test_*.py")):
        for name in _TEST.findall(file.read_text()):
            for id_ in ids(name):
                tests.setdefault(id_, []).append(f"{file.relative_to(TESTS)}: {name}")
    return {id_: sorted(set(names)) for id_, names in tests.items()}


def updated(page: str) -> str:
    """Return the page with its column of tests up to date.

    A case that has lost its last test keeps its old cell: only a person marks it open.
    """
    tests = proofs()

    def row(match: re.Match[str]) -> str:
        id_, behaviour, cell = match.groups()
        if id_ in tests:
            cell = "<br>".join(f"`{test}`" for test in tests[id_])
        return f"| {id_} | {behaviour} | {cell} |"

    return _ROW.sub(row, page)


def test_every_case_is_on_the_page_once_and_has_a_test() -> None:
    rows, tests = _ROW.findall(PAGE.read_text()), proofs()
    on_page = [id_ for id_, _, _ in rows]

    assert len(on_page) == len(set(on_page)) > 100
    assert sorted(tests.keys() - on_page) == []
    untested = [id_ for id_, _, tests_cell in rows if tests_cell != OPEN and id_ not in tests]
    assert untested == [], "mark them open on the page, or give them a test"


def test_the_column_of_tests_is_up_to_date() -> None:
    page = PAGE.read_text()

    assert updated(page) == page, f"docs/conformance.md is stale; run: {COMMAND}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit(f"usage: {COMMAND}")
    PAGE.write_text(updated(PAGE.read_text()))
