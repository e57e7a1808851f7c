"""Commands: documentation, examples, panels, whole summaries, uniform words, and answers to wrong words."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer

from sexton.interfaces.cli.groups import all_commands, unknown_command
from sexton.interfaces.cli.hints import HINTS
from sexton.interfaces.cli.main import PANELS, app

ROOT: Any = typer.main.get_command(app)
PATHS = ["sexton", *all_commands(ROOT.commands)]
LEAVES = [path for path in PATHS if not any(other.startswith(f"{path} ") for other in PATHS)]
DOCUMENT = Path(__file__).parents[4] / "docs" / "commands.md"


def help_of(path: str) -> str:
    """Return the help of a command, as a terminal of 80 columns shows it."""
    command, context = ROOT, ROOT.make_context("sexton", [], resilient_parsing=True, terminal_width=80)
    for word in path.split()[1:]:
        command = command.commands[word]
        context = command.make_context(word, [], parent=context, resilient_parsing=True, terminal_width=80)
    return str(command.get_help(context))


def test_every_command_has_its_line_in_the_documentation() -> None:
    text = DOCUMENT.read_text()

    assert len(LEAVES) >= 40
    assert [path for path in LEAVES if f"| `{path}" not in text] == [], "add a row for each to docs/commands.md"


def test_every_command_shows_an_example() -> None:
    lacking = [path for path in LEAVES if f"Example: {path}" not in help_of(path)]

    assert lacking == [], "end the docstring of each with an example: Example: sexton wal list"


def test_every_command_is_in_one_panel() -> None:
    names = [name for names in PANELS.values() for name in names]

    assert sorted(names) == sorted(ROOT.commands), "name each once in PANELS of sexton/interfaces/cli/main.py"


def test_the_main_help_has_the_panels_in_order() -> None:
    titles = re.findall(r"(?m)^([A-Z][\w', ]+):$", help_of("sexton"))

    assert titles == ["Options", *PANELS]


def test_help_is_whole_and_spelled_uniformly() -> None:
    for path in PATHS:
        text = help_of(path)
        usage = text.split("\n\n")[0]

        assert max(map(len, text.splitlines())) <= 80, path
        assert "..." not in text.replace(usage, "").replace("TOPIC...", "").replace("KEY]...", "").replace(
            "VALUE]...", ""
        ), path
        assert not re.search(r"[{}<>]|\[\[|\b[a-z]+\b", usage.removeprefix(f"Usage: {path}")), path
        assert "9223372036854775807" not in text, path
        assert "-h, --help" in text, path


def test_a_hint_names_commands_that_exist() -> None:
    for typed, answer in HINTS.items():
        assert f"sexton {typed}" not in PATHS, typed
        for words in re.findall(r"sexton ((?:[a-z-]+ ?)+)", answer):
            parts = words.split()
            known = any(" ".join(["sexton", *parts[:n]]) in PATHS for n in (1, 2, 3))
            assert known or parts[0].startswith("--"), (typed, words)


@pytest.mark.parametrize(
    ("group", "word", "answer"),
    [
        ("", "holds", "sexton hold list"),
        ("", "calls", "sexton log"),
        ("", "audit", "sexton deletions ROUND"),
        ("", "observe", "sexton instance observe"),
        ("", "sttus", "sexton status"),
        ("", "instances", "sexton instance"),
        ("", "xyzzy", "See: sexton --help"),
        ("hold", "table", "sexton hold add table"),
        ("lists", "list", "sexton lists show"),
        ("round", "lst", "sexton round list"),
    ],
)
def test_a_wrong_word_is_answered_with_the_command(group: str, word: str, answer: str) -> None:
    context = ROOT.make_context("sexton", [], resilient_parsing=True)
    if group:
        context = ROOT.commands[group].make_context(group, [], parent=context, resilient_parsing=True)

    assert answer in unknown_command(context, word)
