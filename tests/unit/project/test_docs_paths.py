"""Paths that the documentation names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"))]
)
FOLDERS = "deploy|sexton|workflows|activities|config|examples|benchmarks|tests|docs"
PATH = re.compile(rf"`((?:(?:{FOLDERS})/[\w./-]*)|worker\.py|Makefile|pyproject\.toml)`")


def test_every_named_path_exists() -> None:
    named = [(page, path) for page in PAGES for path in PATH.findall(page.read_text())]

    assert [f"{page.relative_to(ROOT)}: {path}" for page, path in named if not (ROOT / path).exists()] == []


def test_the_architecture_page_names_paths() -> None:
    assert len(PATH.findall((ROOT / "docs/architecture.md").read_text())) > 40


def test_every_term_of_the_glossary_has_a_place() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text().splitlines() if re.match(r"\| (?!term |--)", line)]

    assert len(rows) > 60
    assert [row for row in rows if not PATH.search(row.rsplit(" | ", 1)[-1])] == []
