"""Links, headings, commands and paths that the documentation names exist; decisions and exhibits are in their index."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sexton.interfaces.cli.main import root

ROOT = Path(__file__).parents[3]
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT_PAGES, *(ROOT / "config").rglob("*.yml")])
COMMANDS: Any = root()


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as they are made by common renderers."""
    headings = re.findall(r"(?m)^#+ (.+)$", page.read_text())
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Yield each link of a page that stays in the repository, with the file and the heading that it leads to."""
    is_markdown, text = page.suffix == ".md", page.read_text()
    folder = page.parent if is_markdown else ROOT
    for link in re.findall(r"\]\(([^)\s]+)\)" if is_markdown else r"docs/[\w.-]+\.md#?[\w-]*", text):
        file, _, anchor = link.partition("#")
        if "://" not in link:
            yield link, (folder / file) if file else page, anchor


def test_every_linked_file_and_heading_exists() -> None:
    lost = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link, target, anchor in links(page)
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert lost == []


def documented() -> list[tuple[str, str]]:
    """Return the first two words after every `sexton` of the pages, the rules and the dashboard."""
    pages = [page for page in (*PAGES, ROOT / "config/grafana/sexton.json") if page.name != "CHANGELOG.md"]
    text = "\n".join(page.read_text() for page in pages)
    return sorted(set(re.findall(r"(?m)(?:^|`|; )sexton ([a-z][a-z-]*)(?: (-?-?[a-z-]+)|\b)", text)))


def exists(words: tuple[str, str]) -> bool:
    """Return whether there is a command of these words, or one with this option."""
    group: Any = COMMANDS
    for word in filter(None, words):
        below = getattr(group, "commands", {})
        if word not in below and (default := getattr(group, "default_command", "")):
            group, below = below[default], {}  # the word is its argument, or its option
        if word.startswith("-"):
            options = {option for parameter in group.params for option in (*parameter.opts, *parameter.secondary_opts)}
            if word not in {*options, "--help", "-h"}:
                return False
        elif below:
            if word not in below:
                return False
            group = below[word]
    return True


def test_every_documented_command_exists() -> None:
    wrong = [("no-such", ""), ("instance", "no-such"), ("status", "--no-such")]

    assert [words for words in wrong if exists(words)] == []
    assert len(documented()) > 100
    assert [f"sexton {' '.join(words)}" for words in documented() if not exists(words)] == []


PATH_PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"))]
)
FOLDER_NAMES = "deploy|sexton|workflows|activities|config|examples|benchmarks|tests|docs"
PATH = re.compile(rf"`((?:(?:{FOLDER_NAMES})/[\w./-]*)|worker\.py|Makefile|pyproject\.toml)`")


def test_every_named_path_exists() -> None:
    named = [(page, path) for page in PATH_PAGES for path in PATH.findall(page.read_text())]

    assert len(named) > 100
    assert [f"{page.relative_to(ROOT)}: {path}" for page, path in named if not (ROOT / path).exists()] == []


def test_every_term_of_the_glossary_has_a_place() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text().splitlines() if re.match(r"\| (?!term |--)", line)]

    assert len(rows) > 60
    assert [row for row in rows if not PATH.search(row.rsplit(" | ", 1)[-1])] == []


FOLDERS = ("sexton", "workflows", "activities", "config", "examples", "benchmarks", "tests", "docs")


def test_every_cited_decision_exists_and_is_in_the_index() -> None:
    decisions = {page.name[:4]: page.name for page in (ROOT / "docs" / "adr").glob("[0-9]*.md")}
    index = (ROOT / "docs" / "adr" / "README.md").read_text()
    files = [f for name in FOLDERS for f in (ROOT / name).rglob("*") if f.suffix in {".py", ".md", ".toml", ".yml"}]
    texts = [file.read_text() for file in (*files, *ROOT_PAGES, ROOT / "worker.py")]
    cited = {number for text in texts for number in re.findall(r"docs/adr/(\d{4})", text)}

    assert len(cited) > 3
    assert cited - decisions.keys() == set()
    assert [name for number, name in decisions.items() if f"[{number}]({name})" not in index] == []


def test_each_exhibit_is_on_the_page() -> None:
    named = re.findall(r"\(\.\./tests/museum/(test_\w+\.py)\)", (ROOT / "docs" / "museum.md").read_text())
    exhibits = [path.name for path in (ROOT / "tests" / "museum").glob("test_*.py")]

    assert sorted(named) == sorted(exhibits)
    assert len(exhibits) >= 26
