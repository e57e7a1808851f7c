"""Print tables, which are never cut, whatever the width of the terminal."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

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
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return
    console = styled_console(piped_width=PIPED_WIDTH)
    cells = [["" if cell is None else printable(str(cell)) for cell in row] for row in rows]
    widths = [max(len(column), *(len(row[n]) for row in cells)) for n, column in enumerate(columns)]
    needed = sum(w if w <= NEVER_FOLDED_WIDTH else FOLDED_WIDTH for w in widths) + GAP * (len(widths) - 1)
    if needed <= console.width:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
        for name, width in zip(columns, widths, strict=True):
            table.add_column(name, overflow="fold", no_wrap=width <= NEVER_FOLDED_WIDTH)
        for row in cells:
            table.add_row(*[Text(cell) for cell in row])
        console.print(table)
        return
    console = styled_console()
    for first, *rest in cells:
        console.print(Text(first))
        for name, cell in zip(columns[1:], rest, strict=True):
            if cell not in ("", "-"):
                console.print(Text(f"  {name}: {cell}"))


def styled_console(*, stderr: bool = False, piped_width: int | None = None) -> "Console":
    """Return a console that may style its text. What is printed there is not escaped: use ``printable``.

    ``piped_width``: the width where the output is no terminal.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    console = Console(file=getattr(stream, "unescaped", stream))
    return console if console.is_terminal or piped_width is None else Console(file=console.file, width=piped_width)
