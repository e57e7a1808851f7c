"""docs/commands.md has every command, from its help: `make generated`."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sexton.interfaces.cli.main import root
from sexton.interfaces.cli.tree import PANELS

FILE = Path(__file__).parents[3] / "docs" / "commands.md"
LISTS = re.compile(r"(?s)## Set up\n.*(?=## Exit codes\n)")
"""What is generated, between two parts that are written by hand."""
COMMON = {"--json", "--help", "--yes"}


def lists() -> str:
    """Return a table of the commands of each panel."""
    commands: Any = root()
    parts = []
    for panel, words in PANELS.items():
        rows = [row for word in words for row in _rows(commands.commands[word], word)]
        parts.append("\n".join([f"## {panel}\n", "| command | what it does |", "|---|---|", *rows, ""]))
    return "\n".join(parts) + "\n"


def _rows(command: Any, path: str) -> Iterator[str]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _rows(below, f"{path} {name}")
    if not hasattr(command, "commands"):
        words = " ".join(["sexton", path, *_words(command)]).replace("|", "\\|")
        yield f"| `{words}` | {_options(command)} |"


def _words(command: Any) -> Iterator[str]:
    for p in command.params:
        name = p.metavar or p.name.strip("_").upper()
        if p.param_type_name == "argument":
            word = name.strip("[]").removesuffix("...") + ("..." if p.nargs == -1 else "")
            yield word if p.required else f"[{word}]"
        elif p.required:
            yield _option(p)


def _options(command: Any) -> str:
    options = [
        f"`{_option(p)}`: {_sentence(p.help or '')}"
        for p in command.params
        if p.param_type_name == "option" and not COMMON & set(p.opts) and not p.hidden and p.help
    ]
    summary = _sentence(command.help.split("Example:")[0])
    asks = ["asks (`--yes`)"] if any("--yes" in p.opts for p in command.params) else []
    return "; ".join([summary, *options, *asks]).replace("|", "\\|")


def _option(p: Any) -> str:
    return f"{p.opts[0]} {p.metavar or p.name.strip('_').upper()}" if not p.is_flag else p.opts[0]


def _sentence(text: str) -> str:
    return " ".join(text.split()).removesuffix(".")


def page() -> str:
    """Return the page with its lists as they are now."""
    text = FILE.read_text()
    assert LISTS.search(text)
    return LISTS.sub(lambda _: lists(), text)


def test_the_page_of_commands_is_that_of_their_help() -> None:
    assert FILE.read_text() == page(), "renew it: make generated"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(page())
