"""`sexton settings`: what this process would run with, where each value comes from, and what another would change."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, opened
from sexton.interfaces.cli.output import dump, many, show, size

if TYPE_CHECKING:
    from sexton.recycle.planning.preview import Shift

app = typer.Typer(help="Settings and where they come from.", no_args_is_help=True)


@app.command("show")
def show_all(as_json: Json = False) -> None:
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


@app.command("preview")
def preview(
    setting: Annotated[str, typer.Argument(metavar="KEY=VALUE", help="A key as `settings show` names it.")],
    instance: Annotated[str | None, typer.Argument(help="Only this instance.")] = None,
    as_json: Json = False,
) -> None:
    """Print what another value would make due now, or due no more, in each instance. Changes nothing.

    Example: sexton settings preview recycle.compacted_rowset_retention_seconds=600
    """
    from config.settings import load
    from sexton.operators.registry.store import Registry
    from sexton.recycle.planning.preview import shifts

    key, value = _split(setting)
    with opened() as (settings, db):
        other = load(**{key: value})
        registry = Registry(db)
        chosen = registry.instances() if instance is None else [registry.instance(instance)]
        found = [s for i in chosen for s in shifts(db, i.id, settings.policy(), other.policy())]
    if as_json:
        dump([s.model_dump(mode="json") for s in found])
        return
    _print(found)
    typer.echo(
        f"nothing is changed; to set it everywhere: {_variable(key)}={value}, or {key} in the file of the settings"
    )


def _print(found: "list[Shift]") -> None:
    from sexton.recycle.planning.limits import span

    said = {True: "more", False: "less"}
    rows = [
        (
            s.instance,
            s.kind,
            " → ".join("none" if r is None else span(r) for r in (s.before, s.after)),
            f"{many(s.marks, 'mark')} {said[s.more]}",
            f"~{s.objects}" if s.estimated else s.objects,
            size(s.bytes),
        )
        for s in found
    ]
    columns = ("instance", "kind", "retention", "due now", "objects", "bytes")
    show("" if rows else "no mark that waits now becomes due by it, or due no more", columns, rows)
    for name in dict.fromkeys(s.instance for s in found if s.asks):
        typer.echo(
            f"{name}: what only it makes due waits in the first plan after it, until somebody applies that plan "
            f"(sexton plan --list {name}); the rest goes on"
        )


def _split(setting: str) -> tuple[str, str]:
    key, equals, value = setting.partition("=")
    if not (equals and key and value):
        raise WrongUsage(f"{setting!r} sets nothing; write KEY=VALUE, e.g. recycle.retention_seconds=86400")
    return key, value


def _variable(key: str) -> str:
    return f"SEXTON_{key.replace('.', '__').upper()}"
