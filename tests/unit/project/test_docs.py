"""Links, headings, commands and paths that the documentation names exist; decisions and exhibits are in their index."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sexton.interfaces.cli.main import root

ROOT = Path(__file__).parents[3]
ROOT_PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT_PAGES, *(ROOT / "config").rglob("*.yml")])
COMMANDS_A_SYMPTOM = 5
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
    assert len(documented()) > 100
    assert [f"sexton {' '.join(words)}" for words in documented() if not exists(words)] == []


def test_a_command_or_an_option_that_is_missing_is_noticed() -> None:
    wrong = [("no-such", ""), ("instance", "no-such"), ("status", "--no-such")]

    assert [words for words in wrong if exists(words)] == []


PATH_PAGES = sorted(
    [*(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md"))]
)
FOLDER_NAMES = "deploy|sexton|workflows|activities|config|examples|benchmarks|tests|docs"
PATH = re.compile(rf"`((?:(?:{FOLDER_NAMES})/[\w./-]*)|worker\.py|Makefile|pyproject\.toml)`")


def test_every_named_path_exists() -> None:
    named = [(page, path) for page in PATH_PAGES for path in PATH.findall(page.read_text())]

    assert [f"{page.relative_to(ROOT)}: {path}" for page, path in named if not (ROOT / path).exists()] == []


def test_the_architecture_page_names_paths() -> None:
    assert len(PATH.findall((ROOT / "docs/architecture.md").read_text())) > 40


def test_every_term_of_the_glossary_has_a_place() -> None:
    rows = [line for line in (ROOT / "docs/glossary.md").read_text().splitlines() if re.match(r"\| (?!term |--)", line)]

    assert len(rows) > 60
    assert [row for row in rows if not PATH.search(row.rsplit(" | ", 1)[-1])] == []


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


def test_each_exhibit_is_on_the_page() -> None:
    named = re.findall(r"\(\.\./tests/museum/(test_\w+\.py)\)", (ROOT / "docs" / "museum.md").read_text())
    exhibits = [path.name for path in (ROOT / "tests" / "museum").glob("test_*.py")]

    assert sorted(named) == sorted(exhibits)
    assert len(exhibits) >= 26
