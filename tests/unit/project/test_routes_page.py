"""docs/api.md has the route of every operation: `make generated`."""

import re
import sys
from itertools import groupby
from pathlib import Path

from sexton.operations.registry import INSTANCE, Operation, operations

FILE = Path(__file__).parents[3] / "docs" / "api.md"
TABLE = re.compile(r"(?s)\| route \| command \|.*?\n\n")


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


def test_the_page_has_the_routes_of_all_operations() -> None:
    command = "make generated"
    assert TABLE.findall(FILE.read_text()) == [table()], f"renew it: {command}"


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    FILE.write_text(TABLE.sub(lambda _: table(), FILE.read_text()))
