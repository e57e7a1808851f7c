"""Print settings, and what another value of one would change."""

from typing import TYPE_CHECKING, Any

import typer

from sexton.insight.wording import human_bytes, quantity
from sexton.interfaces.cli.output import show_table, styled_console
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from sexton.recycle.planning.model import Shift
    from sexton.runtime.setting_changes import SettingChange

IN_FORCE = "workers use it within 5 s; a plan that was made before is not changed"


def show_settings(rows: Any, ignored: Any) -> None:
    """Print each setting with its source."""
    from rich.table import Table
    from rich.text import Text

    for why in ignored:
        typer.echo(f"ignored: {printable(why)}", err=True)
    table = Table("setting", "value and its source", box=None, pad_edge=False)
    for row in rows:
        table.add_row(Text(row.key), Text(printable(f"{row.value or '(empty)'} {row.unit}"), overflow="fold"))
        source = f"{row.source}; instead of {row.overrides}" if row.overrides else row.source
        bound = f"{row.bound}; changeable" if row.mutable else row.bound
        table.add_row(Text(f"  {bound}", style="dim"), Text(printable(source), style="dim", overflow="fold"))
    styled_console().print(table)


def show_change(change: "SettingChange") -> None:
    """Print what a change makes due, or no longer due, and which safeguard it loosens."""
    columns = ("instance", "kind", "retention", "due now", "objects", "bytes")
    none = "no waiting mark becomes due, or is no longer due"
    show_table("" if change.shifts else none, columns, [_row(s) for s in change.shifts])
    for name in dict.fromkeys(s.instance for s in change.shifts if s.asks):
        typer.echo(
            f"{name}: marks that become due only by this change wait in the first plan after it, until an operator "
            f"applies that plan (sexton plan list {name}); other marks are deleted as usual"
        )
    if change.loosens:
        typer.echo(f"this loosens a safeguard: {change.loosens}")


def _row(s: "Shift") -> tuple[object, ...]:
    from sexton.recycle.planning.limits import span

    retention = " → ".join("none" if r is None else span(r) for r in (s.before, s.after))
    marks = f"{quantity(s.marks, 'mark')} {'more' if s.more else 'less'}"
    objects = f"~{s.objects}" if s.estimated else s.objects
    return s.instance, s.kind, retention, marks, objects, human_bytes(s.bytes)
