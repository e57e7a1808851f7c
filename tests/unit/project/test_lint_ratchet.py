"""The list of lint exceptions only shrinks, and lists nothing that is no longer needed."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
RATCHET = ROOT / ".ci" / "ruff-ratchet.toml"
LONGEST = 40
"""How many exceptions there are. Lower it when you remove one; a reviewer should refuse a higher number."""


def listed_exceptions() -> set[tuple[str, str]]:
    ignores = tomllib.loads(RATCHET.read_text())["lint"]["per-file-ignores"]
    return {(path.removeprefix("../"), code) for path, codes in ignores.items() for code in codes}


def found_exceptions(codes: set[str]) -> set[tuple[str, str]]:
    ruff = Path(sys.executable).with_name("ruff")
    options = ["--output-format=json", "--exit-zero", "--config", "lint.per-file-ignores = {}", "--select"]
    found = subprocess.check_output([ruff, "check", ".", *options, ",".join(sorted(codes))], cwd=ROOT, text=True)
    return {(str(Path(f["filename"]).relative_to(ROOT)), f["code"]) for f in json.loads(found)}


def test_every_listed_exception_is_still_needed() -> None:
    listed = listed_exceptions()

    assert listed - found_exceptions({code for _, code in listed}) == set()


def test_the_list_of_exceptions_does_not_grow() -> None:
    assert len(listed_exceptions()) <= LONGEST


def test_no_source_file_has_more_than_400_lines() -> None:
    sources = [path for tree in ("sexton", "workflows", "activities", "config") for path in (ROOT / tree).rglob("*.py")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources}

    assert [path for path, lines in lengths.items() if lines > 400] == []


def test_the_name_of_a_test_has_at_most_60_characters() -> None:
    names = [
        node.name
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]

    assert [name for name in names if len(name) > 60] == []


def test_no_line_excuses_itself_from_the_limits_of_size() -> None:
    limits = ("C901", "PLR0913", "PLR0915")
    trees = ("sexton", "workflows", "activities", "config", "tests", "benchmarks", "examples")
    excused = [
        f"{path.relative_to(ROOT)}:{n}"
        for tree in trees
        for path in (ROOT / tree).rglob("*.py")
        for n, line in enumerate(path.read_text().splitlines(), 1)
        if "# noqa" in line and any(f": {code}" in line or f",{code}" in line for code in limits)
    ]

    assert excused == []
