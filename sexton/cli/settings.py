"""`sexton settings`: what this process would run with, and where each value comes from."""

import json
from typing import Annotated

import typer

app = typer.Typer(help="Settings and where they come from.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `show` a subcommand although it is the only one."""


@app.command("show")
def show(as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False) -> None:
    """Print every setting with its value, source, unit, floor and default; passwords are masked.

    Example: sexton settings show --json
    """
    from config.settings import explain

    rows = explain()
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("setting", "value and where it is from", box=None, pad_edge=False)
    for row in rows:
        table.add_row(Text(row.key), Text(f"{row.value or '(empty)'} {row.unit}", overflow="fold"))
        table.add_row(Text(f"  {row.bound}", style="dim"), Text(row.source, style="dim", overflow="fold"))
    Console().print(table)
