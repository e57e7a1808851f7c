"""Decisions in docs/adr have one format, are in the index, and exist where code and pages cite them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("sexton", "workflows", "activities", "config", "examples", "benchmarks", "tests", "docs")
DECISIONS = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
PARTS = ["Status", "Context", "Decision", "Alternatives", "Consequences"]


def citing_files() -> list[Path]:
    """Return every file of the project that may cite a decision."""
    files = [f for name in FOLDERS for f in (ROOT / name).rglob("*") if f.suffix in {".py", ".md", ".toml", ".yml"}]
    return [*files, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "worker.py"]


def test_every_decision_has_a_title_and_five_parts() -> None:
    texts = {page.name[:4]: page.read_text() for page in DECISIONS}

    assert [number for number, text in texts.items() if not re.match(rf"# {number}\. [A-Z\w]", text)] == []
    parts = {number: re.findall(r"(?m)^## (.+)$", text) for number, text in texts.items()}
    assert parts == dict.fromkeys(texts, PARTS)


def test_the_index_lists_every_decision_by_its_title() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    lines = [f"| [{p.name[:4]}]({p.name}) | {p.read_text().splitlines()[0][8:]} |" for p in DECISIONS]

    assert [line for line in lines if line not in index] == []


def test_every_cited_decision_exists() -> None:
    cited = {number for f in citing_files() for number in re.findall(r"docs/adr/(\d{4})", f.read_text())}

    assert len(cited) > 3
    assert cited - {p.name[:4] for p in DECISIONS} == set()
