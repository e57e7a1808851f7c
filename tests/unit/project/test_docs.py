"""Links, headings and commands that the documentation names exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from sexton.interfaces.cli.main import app

ROOT = Path(__file__).parents[3]
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT_PAGES, *(ROOT / "config").rglob("*.yml")])
COMMANDS_A_SYMPTOM = 5
COMMANDS: Any = typer.main.get_command(app)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made by common renderers."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_linked_file_and_heading_exist(page: Path) -> None:
    folder = page.parent if page.suffix == ".md" else ROOT
    text = page.read_text()
    links = (
        re.findall(r"\]\(([^)\s]+)\)", text) if page.suffix == ".md" else re.findall(r"docs/[\w.-]+\.md#?[\w-]*", text)
    )

    lost = []
    for link in links:
        file, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = (folder / file) if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_every_symptom_has_at_most_five_commands() -> None:
    parts = re.split(r"(?m)^## ", (ROOT / "docs" / "incidents.md").read_text())[1:]
    commands = {p.splitlines()[0]: re.findall(r"(?m)^(?:sexton|python) .*", p) for p in parts}

    assert {title: n for title, found in commands.items() if (n := len(found)) > COMMANDS_A_SYMPTOM} == {}
    assert sum(map(len, commands.values())) > 30


def documented() -> list[tuple[str, str]]:
    """Return the first two words after every `sexton` of the pages, the rules, the dashboard and messages."""
    pages = [page for page in (*PAGES, ROOT / "config/grafana/sexton.json") if page.name != "CHANGELOG.md"]
    text = "\n".join(page.read_text() for page in pages)
    messages = "\n".join(file.read_text() for file in (ROOT / "sexton").rglob("*.py"))
    words = r"sexton ([a-z][a-z-]*)(?: (-?-?[a-z-]+)|\b)"
    return sorted({*re.findall(rf"(?m)(?:^|`|; ){words}", text), *re.findall(rf"(?:: |; |\(){words}", messages)})


@pytest.mark.parametrize("words", documented(), ids=" ".join)
def test_a_documented_command_exists(words: tuple[str, str]) -> None:
    group: Any = COMMANDS

    for word in filter(None, words):
        below = getattr(group, "commands", {})
        if word not in below and (default := getattr(group, "default_command", "")):
            group, below = below[default], {}  # the word is its argument, or its option
        if word.startswith("-"):
            options = {option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts)}
            assert word in {*options, "--help", "-h"}, f"sexton {' '.join(words)}: there is no such option"
        elif below:
            assert word in below, f"there is no sexton {' '.join(words)}"
            group = below[word]
