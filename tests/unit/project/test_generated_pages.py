"""`make generated` writes docs/commands.md from the help, the routes of docs/api.md, and types of the client."""

import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from sexton.interfaces.cli.main import root
from sexton.interfaces.cli.tree import PANELS
from sexton.operations.registry import INSTANCE, Operation, operations

ROOT = Path(__file__).parents[3]
LISTS = re.compile(r"(?s)## Set up\n.*(?=## Exit codes\n)")
"""What is generated of docs/commands.md, between two parts that are written by hand."""
TABLE = re.compile(r"(?s)\| route \| command \|.*?\n\n")
METHODS = re.compile(r"(?s)(?<=\n    if TYPE_CHECKING:\n).*?(?=    else:\n)")
WIDTH = 120
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


def table() -> str:
    """Return the table of the routes of all operations. Those of signals, which differ in a word, share a row."""
    routed = [operation for operation in operations().values() if operation.paths]
    rows = [_row(list(alike)) for _, alike in groupby(routed, _what_signals_share)]
    return "\n".join(["| route | command | values | grant |", "|---|---|---|---|", *rows, "", ""])


def _what_signals_share(operation: Operation) -> str:
    is_signal = operation.function.__module__.endswith(".signals")
    return f"{operation.method} {operation.paths[0].rpartition('/')[0]}" if is_signal else operation.name


def _row(alike: list[Operation]) -> str:
    first, words = alike[0], ", ".join(operation.name.rpartition(" ")[2] for operation in alike)
    paths, name = ", ".join(first.paths), first.name
    if len(alike) > 1:
        paths, name = f"{paths.rpartition('/')[0]}/{{signal}}", f"{name.rpartition(' ')[0]} ({words})"
    return f"| `{first.method} {paths}` | {name} | {_values(first)} | {first.grant} |"


def _values(operation: Operation) -> str:
    body = {} if operation.body is None else operation.body.model_fields
    query = frozenset[str]().union(*map(operation.query_names, operation.paths)) - {INSTANCE}
    return ", ".join(f"`{name}`" for name in (*sorted(query), *(f.alias or name for name, f in body.items())))


def methods() -> str:
    """Return the client's methods for type checkers: each operation with a route, as many in a line as fit."""
    rows = list[list[Operation]]([[]])
    for operation in operations().values():
        if operation.paths and not operation.function.__module__.endswith(".signals"):
            row = [*rows[-1], operation]
            if len(_declared(row)) > WIDTH or row[0].function.__module__ != operation.function.__module__:
                rows.append([])
            rows[-1].append(operation)
    return "".join(f"{_declared(row)}\n" for row in rows)


def _declared(row: list[Operation]) -> str:
    names = [(o.function.__module__.rpartition(".")[2], o.function.__name__) for o in row]
    functions = ", ".join(f"sends(_{module}.{name})" for module, name in names)
    return f"        {', '.join(name for _, name in names)} = {functions}"


def files() -> dict[Path, str]:
    """Return each file with what is generated of it as it is now."""
    parts = [("docs/commands.md", LISTS, lists()), ("docs/api.md", TABLE, table())]
    parts += [("sexton/client/methods.py", METHODS, methods())]
    written = {}
    for name, place, part in parts:
        before, after = place.split((ROOT / name).read_text())
        written[ROOT / name] = before + part + after
    return written


def test_what_is_generated_is_that_of_the_code() -> None:
    for file, text in files().items():
        assert file.read_text() == text, "renew it: make generated"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    for file, text in files().items():
        file.write_text(text)
