"""What a command works with: settings, the checked database, and one way to print."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.db.engine import Database

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


@contextmanager
def opened() -> Iterator[tuple["Settings", "Database"]]:
    """Yield the settings and the database, its schema and deployment checked."""
    from config.settings import load
    from sexton.db import schema
    from sexton.db.engine import Database

    settings = load()
    deployment = settings.require_deployment()
    db = Database.open(settings.database_url)
    try:
        schema.check(db, deployment)
        yield settings, db
    finally:
        db.close()


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table for people; nothing is cut when the output is no terminal. Without rows only the title."""
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
        console = Console(width=200)
    table = Table(*columns, title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*[Text("" if cell is None else str(cell), overflow="fold") for cell in row])
    console.print(table)


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
    """Return an instant (ms since 1970) for people, in UTC."""
    import datetime as dt

    if instant is None:
        return "-"
    return dt.datetime.fromtimestamp(instant / 1000, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


def counts(held: dict[str, int]) -> str:
    """Return what holds how much, for people."""
    return ", ".join(f"{n} by {who}" for who, n in sorted(held.items())) or "nothing"
