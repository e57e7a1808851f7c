"""One line of the doctor's output, and how it is printed."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from sexton.interfaces.cli.output import styled_console
from sexton.kernel.printable import printable


class DoctorFinding(NamedTuple):
    """The state of one dependency; `todo` is empty if there is no fault."""

    state: Literal["OK", "WARN", "FAIL"]
    about: str
    detail: str
    todo: str = ""


def show_findings(findings: Sequence[DoctorFinding]) -> None:
    """Print the findings as a table."""
    from rich.table import Table
    from rich.text import Text

    colour = {"OK": "green", "WARN": "yellow", "FAIL": "bold red"}
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("about", no_wrap=True)
    for heading in ("found", "what to do"):
        table.add_column(heading, overflow="fold")
    for f in findings:
        table.add_row(Text(f.state, style=colour[f.state]), f.about, Text(printable(f.detail)), Text(printable(f.todo)))
    styled_console().print(table)
