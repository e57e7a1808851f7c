"""The list of lint exceptions only shrinks, and lists nothing that is no longer needed."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
RATCHET = ROOT / ".ci" / "ruff-ratchet.toml"
LONGEST = 40
"""How many exceptions there are. Lower it when you remove one; a reviewer should refuse a higher number."""
TREES = ("sexton", "workflows", "activities", "config", "tests", "benchmarks", "examples")


def found_exceptions(codes: set[str]) -> set[tuple[str, str]]:
    ruff = Path(sys.executable).with_name("ruff")
    options = ["--output-format=json", "--exit-zero", "--config", "lint.per-file-ignores = {}", "--select"]
    found = subprocess.check_output([ruff, "check", ".", *options, ",".join(sorted(codes))], cwd=ROOT, text=True)
    return {(str(Path(f["filename"]).relative_to(ROOT)), f["code"]) for f in json.loads(found)}


def test_listed_exceptions_are_needed_and_do_not_grow() -> None:
    ignores = tomllib.loads(RATCHET.read_text())["lint"]["per-file-ignores"]
    listed = {(path.removeprefix("../"), code) for path, codes in ignores.items() for code in codes}

    assert len(listed) <= LONGEST
    assert listed - found_exceptions({code for _, code in listed}) == set()


def test_no_file_escapes_the_limits_of_size() -> None:
    long, excused, names = [], [], []
    for tree in TREES:
        for path in (ROOT / tree).rglob("*.py"):
            text = path.read_text()
            if tree in TREES[:4] and text.count("\n") > 400:
                long.append(path)
            if re.search(r"# noqa.*(: |,)(C901|PLR0913|PLR0915)", text):
                excused.append(path)
            if path.name.startswith("test_"):
                names += re.findall(r"(?m)^ *(?:async )?def (test_\w{56,})\(", text)

    assert (long, excused, names) == ([], [], [])
