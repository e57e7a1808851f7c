"""How a command prints: tables that no width of the terminal cuts, JSON, and sizes and instants in people's words."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer

PIPED_WIDTH = 200
GAP = 2
SHORT = 20
"""A column whose cells are no longer than this is never folded."""
FOLDED = 24
"""The least room a longer column needs; with less, rows are printed one below the other."""


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table for people, or each row as a block where the terminal is too narrow. Without rows only the title.

    Nothing is ever cut: what is long is folded.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not rows:
        if title:
            typer.echo(title)
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=PIPED_WIDTH)
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max(len(c), *(len(row[n]) for row in cells)) for n, c in enumerate(columns)]
    if sum(w if w <= SHORT else FOLDED for w in widths) + GAP * (len(widths) - 1) > console.width:
        _blocks(title, columns, cells)
        return
    if title:
        console.print(Text(title))
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for name, width in zip(columns, widths, strict=True):
        table.add_column(name, overflow="fold", no_wrap=width <= SHORT)
    for row in cells:
        table.add_row(*[Text(cell) for cell in row])
    console.print(table)


def _blocks(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print each row below the other: its first cell, then what the others say."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if title:
        console.print(Text(title))
    for first, *rest in rows:
        console.print(Text(first))
        block = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
        block.add_column(no_wrap=True)
        block.add_column(overflow="fold")
        for name, cell in zip(columns[1:], rest, strict=True):
            if cell not in ("", "-"):
                block.add_row(Text(f"  {name}"), Text(cell))
        console.print(block)


def many(count: int, noun: str, nouns: str = "") -> str:
    """Return ``1 mark`` or ``2 marks``; ``nouns``: where an s does not make it many."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {nouns or f'{noun}s'}"


def brief(text: str) -> str:
    """Return the first line of an error: a driver's goes on with its statement, which `round show` prints whole."""
    first, *more = text.strip().splitlines() or [""]
    return f"{first} …" if more else first


def dump(value: Any) -> None:
    """Print JSON."""
    typer.echo(json.dumps(value, indent=2))


def size(count: int) -> str:
    """Return bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if amount < 1024 or unit == "TiB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")


def when(instant: int | None) -> str:
    """Return an instant (ms since 1970) for people."""
    return "-" if instant is None else f"{stamp(instant, 'seconds')} UTC"


def stamp(instant: int | None, to: str = "minutes") -> str:
    """Return an instant (ms since 1970) for a column whose heading says UTC."""
    import datetime as dt

    if instant is None:
        return "-"
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).replace(tzinfo=None).isoformat(" ", to)


def counts(marks_by_reason: Mapping[Any, int]) -> str:
    """Return how many marks are kept and why, for people."""
    return ", ".join(f"{marks} by {why}" for why, marks in sorted(marks_by_reason.items())) or "nothing"
