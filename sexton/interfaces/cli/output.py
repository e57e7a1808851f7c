"""Print tables, which are never cut, and what --json asks for: one object, by one rule for its keys.

A list is ``{"items": […], "more": bool}``. The number of a plan is called ``plan``, not ``id``. Instants are ms since
1970, and their names end in ``_at``. A command without a result prints its actions and messages. docs/cli-json.md
explains it to users.
"""

import inspect
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from contextvars import ContextVar
from functools import wraps
from itertools import zip_longest
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console


class _Output:
    """What the running command printed in JSON, and the actions that it recorded."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.printed = stream, False
        self.actions: list[Mapping[str, str]] = []


JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print JSON for programs.")],
)
_OUTPUT: ContextVar[_Output | None] = ContextVar("json_output", default=None)


def wants_json() -> bool:
    """Return whether the command that runs now was given --json."""
    return _OUTPUT.get() is not None


def emit(value: "BaseModel", **more: Any) -> None:
    """Print one object, if --json was given; ``more``: further keys. Then lines for people are not printed."""
    emit_object(value.model_dump(mode="json", by_alias=True) | more)


def emit_object(value: Mapping[str, Any]) -> None:
    """Print an object whose keys are stable already, if --json was given."""
    emit_line(json.dumps(value, indent=2))


def begin_lines() -> None:
    """Begin a stream of JSON lines, which may be empty."""
    if (output := _OUTPUT.get()) is not None:
        output.printed = True


def emit_line(text: str) -> None:
    """Print one line, of a stream of JSON lines for example, if --json was given."""
    if (output := _OUTPUT.get()) is not None:
        output.printed = True
        output.stream.write(f"{text}\n")
        output.stream.flush()


def note_action(**fields: str) -> None:
    """Record an action as the log of calls has it: its name, instance, subject and reason."""
    if (output := _OUTPUT.get()) is not None:
        output.actions.append(fields)


def with_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that has the option --json, too.

    With it the command prints its object, or its actions and the lines that people would read.
    """

    @wraps(command)
    def run(*, as_json: bool, **arguments: Any) -> Any:
        if not as_json:
            return command(**arguments)
        output, text = _Output(sys.stdout), io.StringIO()
        token = _OUTPUT.set(output)
        try:
            with redirect_stdout(text):
                result = command(**arguments)
            _finish(output, text)
            return result
        except typer.Exit:
            _finish(output, text)
            raise
        finally:
            _OUTPUT.reset(token)

    signature = inspect.signature(command)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), JSON])  # type: ignore[attr-defined]
    run.__annotations__ = command.__annotations__ | {JSON.name: JSON.annotation}
    return run


def _finish(output: _Output, text: io.StringIO) -> None:
    """Print the actions and the lines for people, if the command has printed nothing in JSON."""
    if not output.printed:
        lines = [printable(line) for line in text.getvalue().splitlines() if line]
        emit_object({"actions": output.actions, "messages": lines})


PIPED_WIDTH = 200
GAP = 2
NEVER_FOLDED_WIDTH = 20
"""A column whose cells are no longer than this is never folded."""
FOLDED_WIDTH = 24
"""The least room that a longer column needs. With less, each row is printed as a block."""


def say(*lines: object, err: bool = False) -> None:
    """Print lines, whatever names are in them; one that is empty or false is left out."""
    for line in lines:
        if line:
            typer.echo(printable(str(line)), err=err)


def show_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table, or each row as a block where the terminal is too narrow; nothing if there are no rows.

    Nothing is ever cut: long cells are folded. A block is the first cell, then a line for each other one with a value.
    """
    if not rows:
        return
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(column), *(len(row[n]) for row in cells)) for n, column in enumerate(columns)]
    is_terminal = getattr(sys.stdout, "isatty", bool)()  # there is no stdout where the parent process closed it
    width = get_terminal_size().columns if is_terminal else PIPED_WIDTH
    room = width - GAP * (len(widths) - 1)
    if sum(w if w <= NEVER_FOLDED_WIDTH else FOLDED_WIDTH for w in widths) > room:
        for first, *rest in cells:
            others = zip(columns[1:], rest, strict=True)
            lines = [first, *(f"  {name}: {cell}" for name, cell in others if cell not in ("", "-"))]
            say(*(part for line in lines for part in wrap(line, width, subsequent_indent="    ")))
        return
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    for row in [columns, ["-" * each for each in widths], *cells]:
        folded = [wrap(*cell) for cell in zip(row, widths, strict=True)]
        for line in zip_longest(*folded, fillvalue=""):
            print((" " * GAP).join(map(str.ljust, line, widths)).rstrip())  # noqa: T201 (echo loses what ASCII lacks)


def styled_console(*, stderr: bool = False) -> "Console":
    """Return a console that may style its text. What is printed there is not escaped: use ``printable``."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=getattr(stream, "unescaped", stream))
