"""`sexton settings`: show each setting and its source, and preview the effect of another value."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, open_database
from sexton.interfaces.cli.output import human_bytes, print_json, quantity, show_table, styled_console
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from sexton.recycle.planning.preview import Shift

app = typer.Typer(help="Settings and where they come from.", no_args_is_help=True)


@app.command("show")
def show_all(as_json: Json = False) -> None:
    """Print every setting and its source.

    With value, unit, floor and default; passwords are masked.

    Example: sexton settings show --json
    """
    from config.settings import explain

    rows = explain()
    if as_json:
        typer.echo(json.dumps([row._asdict() for row in rows], indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("setting", "value and its source", box=None, pad_edge=False)
    for row in rows:
        table.add_row(Text(row.key), Text(printable(f"{row.value or '(empty)'} {row.unit}"), overflow="fold"))
        table.add_row(Text(f"  {row.bound}", style="dim"), Text(printable(row.source), style="dim", overflow="fold"))
    styled_console().print(table)


@app.command("preview")
def preview(
    setting: Annotated[str, typer.Argument(metavar="KEY=VALUE", help="A key of `settings show`, and the other value.")],
    instance: Annotated[str | None, typer.Argument(help="Only this instance.")] = None,
    as_json: Json = False,
) -> None:
    """Preview the effect of another value.

    Prints which marks become due now, or are no longer due, in each instance. Changes nothing.

    Example: sexton settings preview recycle.compacted_rowset_retention_seconds=600
    """
    from config.settings import load
    from sexton.recycle.planning.preview import shifts

    key, value = _split(setting)
    with open_database() as service:
        other = load(**{key: value})
        registry = service.stores.registry
        instances = registry.instances() if instance is None else [registry.instance(instance)]
        changes = [s for i in instances for s in shifts(service.db, i.id, service.settings.policy(), other.policy())]
    if as_json:
        print_json([s.model_dump(mode="json") for s in changes])
        return
    _show_changes(changes)
    typer.echo(f"nothing is changed; to set it everywhere: {_variable(key)}={value}, or {key} in the settings file")


def _show_changes(changes: "list[Shift]") -> None:
    columns = ("instance", "kind", "retention", "due now", "objects", "bytes")
    none = "no waiting mark becomes due, or is no longer due"
    show_table("" if changes else none, columns, [_change_row(s) for s in changes])
    for name in dict.fromkeys(s.instance for s in changes if s.asks):
        typer.echo(
            f"{name}: marks that become due only by this change wait in the first plan after it, until an operator "
            f"applies that plan (sexton plan --list {name}); other marks are deleted as usual"
        )


def _change_row(s: "Shift") -> tuple[object, ...]:
    from sexton.recycle.planning.limits import span

    retention = " → ".join("none" if r is None else span(r) for r in (s.before, s.after))
    marks = f"{quantity(s.marks, 'mark')} {'more' if s.more else 'less'}"
    objects = f"~{s.objects}" if s.estimated else s.objects
    return s.instance, s.kind, retention, marks, objects, human_bytes(s.bytes)


def _split(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not (equals and key and value):
        raise WrongUsage(f"{setting!r} sets nothing; write KEY=VALUE, e.g. recycle.retention_seconds=86400")
    return key, value


def _variable(key: str) -> str:
    return f"SEXTON_{key.replace('.', '__').upper()}"
