"""`sexton settings`: show each setting and its source, preview the effect of another value, and set it."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces import setting_changes
from sexton.interfaces.cli.context import WrongUsage, log_call, open_database
from sexton.interfaces.cli.json_output import emit_list, wants_json
from sexton.interfaces.cli.output import show_table, styled_console
from sexton.interfaces.wording import first_line, human_bytes, quantity
from sexton.kernel.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from config.explain import SettingRow
    from config.live import IgnoredRow
    from sexton.protocol.settings import SettingChange, Shift

app = typer.Typer(help="Settings and where they come from.", no_args_is_help=True)


OfInstance = Annotated[str | None, typer.Option("--instance", help="Only for this instance; without it: for all.")]


def _keys(incomplete: str) -> list[str]:
    """Complete the key of a changeable setting."""
    from config.mutable import FOR_ALL, PER_INSTANCE

    return sorted(key for key in PER_INSTANCE | FOR_ALL if key.startswith(incomplete))


KEY_HELP = "A key that `settings show` marks as changeable."
Key = Annotated[str, typer.Argument(help=KEY_HELP, autocompletion=_keys)]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
IN_FORCE = "workers use it within 5 s; a plan that was made before is not changed"


@app.command("show")
def show_all(instance: OfInstance = None) -> None:
    """Print every setting and its source.

    With value, unit, floor and default; passwords are masked. A value that `settings set` stored in the database takes
    precedence over those of environment and file, which are printed beside it.

    Example: sexton settings show --json
    """
    rows, ignored = _rows_in_force(instance or "")
    for entry in ignored:
        typer.echo(f"ignored: {printable(entry.why)}", err=True)
    if wants_json():
        emit_list([row._asdict() for row in rows])
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("setting", "value and its source", box=None, pad_edge=False)
    for row in rows:
        table.add_row(Text(row.key), Text(printable(f"{row.value or '(empty)'} {row.unit}"), overflow="fold"))
        source = f"{row.source}; instead of {row.overrides}" if row.overrides else row.source
        bound = f"{row.bound}; changeable" if row.mutable else row.bound
        table.add_row(Text(f"  {bound}", style="dim"), Text(printable(source), style="dim", overflow="fold"))
    styled_console().print(table)


@app.command("set")
def set_(
    key: Key,
    value: Annotated[str, typer.Argument(help="The value, as in an environment variable.")],
    instance: OfInstance = None,
    reason: Annotated[str, typer.Option(help="Why; other operators will read it.")] = "",
    yes: Yes = False,
) -> None:
    """Change a setting for all workers, without a restart.

    Prints what becomes due by it, and asks before it if more would be deleted. Bounds are those of the settings file.

    Example: sexton settings set recycle.retention_seconds 604800 --instance shop
    """
    from config.mutable import is_mutable

    # Another key is refused, and its value could be a secret, which must not be in the log.
    subject, scope = f"{key}={value}" if is_mutable(key) else key, instance or ""
    with open_database() as service, log_call(service, "settings set", scope, subject, reason):
        _confirm(setting_changes.preview(service, key, value, scope), yes)
        service.stores.setting_rows.put(key, value, scope, reason)
    typer.echo(f"{key} is {value} for {instance or 'all instances'}: {IN_FORCE}")


@app.command("unset")
def unset(key: Key, instance: OfInstance = None, yes: Yes = False) -> None:
    """Remove a setting from the database: environment, file and default apply again. Repeatable.

    Example: sexton settings unset recycle.retention_seconds --instance shop
    """
    from config.live import check_mutable

    scope = instance or ""
    with open_database() as service, log_call(service, "settings unset", scope, key):
        scopes = {row.instance for row in service.live.rows() if row.key == key}
        if scope not in scopes:
            check_mutable(service.settings, key)
        _confirm(setting_changes.preview(service, key, None, scope), yes)
        removed = service.stores.setting_rows.remove(key, scope)
    where = f"for {instance or 'all instances'}"
    if removed:
        typer.echo(f"{key} is no longer set {where}: {IN_FORCE}")
        return
    others = ", ".join(f"{other} (--instance {other})" if other else "all instances" for other in sorted(scopes))
    typer.echo(f"{key} was not set {where}" + (f"; it is set for {others}" if others else ""))


def _rows_in_force(instance: str) -> "tuple[list[SettingRow], list[IgnoredRow]]":
    """Return the settings with those of the database; without a database, those of this process."""
    from config.live import explain_live
    from config.settings import explain
    from sexton.database.engine import AWAY
    from sexton.kernel.errors import SextonError

    own = explain()
    try:
        with open_database() as service:
            if instance:
                service.stores.registry.instance(instance)
            now = service.stores.setting_rows.now()
            return explain_live(service.live, instance, now), service.live.ignored()
    except (SextonError, *AWAY) as e:
        if instance:
            raise
        typer.echo(f"without the settings in the database: {first_line(str(e))}", err=True)
        return own, []


def _confirm(change: "SettingChange", yes: bool) -> None:
    """Print what a change makes due, or no longer due; ask if it makes more due, or loosens a safeguard."""
    _show_shifts(change.shifts)
    if change.loosens:
        typer.echo(f"this loosens a safeguard: {change.loosens}")
    if not yes and change.deletes_more:
        typer.confirm(f"Change {change.key}?", abort=True, err=True)


@app.command("preview")
def preview(
    setting: Annotated[str, typer.Argument(metavar="KEY=VALUE", help="A key of `settings show`, and the other value.")],
    instance: Annotated[str | None, typer.Argument(help="Only this instance.")] = None,
) -> None:
    """Preview the effect of another value.

    Prints which marks become due now, or are no longer due, in each instance. Changes nothing.

    Example: sexton settings preview recycle.compacted_rowset_retention_seconds=600
    """
    from config.mutable import is_mutable
    from config.settings import load
    from sexton.kernel.live import Live

    key, value = _split(setting)
    with open_database() as service:
        other = service.live.changed(key, value) if is_mutable(key) else Live.of(load(**{key: value}))
        changes = list(setting_changes.shifts(service, instance or "", other))
    if wants_json():
        emit_list(changes)
        return
    _show_shifts(changes)
    live = f"for all workers: sexton settings set {key} {value}; or " if is_mutable(key) else ""
    typer.echo(
        f"nothing is changed; to set it {live}everywhere: {_variable(key)}={value}, or {key} in the settings file"
    )


def _show_shifts(changes: "Sequence[Shift]") -> None:
    columns = ("instance", "kind", "retention", "due now", "objects", "bytes")
    none = "no waiting mark becomes due, or is no longer due"
    show_table("" if changes else none, columns, [_change_row(s) for s in changes])
    for name in dict.fromkeys(s.instance for s in changes if s.asks):
        typer.echo(
            f"{name}: marks that become due only by this change wait in the first plan after it, until an operator "
            f"applies that plan (sexton plan list {name}); other marks are deleted as usual"
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
