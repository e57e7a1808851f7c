"""`sexton stop`, `sexton start`, `sexton lists`: control which instances and vaults rounds may work on, and when.

They need only the database, never Temporal.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import WhyOption, WrongUsage, log_call, open_database, require_reason
from sexton.interfaces.cli.json_output import emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.lists import CONTROL_KINDS, instance_in, refuse_unknown_name
from sexton.interfaces.wording import utc, utc_column
from sexton.kernel.printable import printable
from sexton.operators.controls.model import ALL, ControlKind, ListName

if TYPE_CHECKING:
    from sexton.operators.controls.model import Control

lists = typer.Typer(help="Which instances and vaults rounds may work on, and when.", no_args_is_help=True)
Instance = Annotated[str | None, typer.Argument(help="The instance.")]
AllInstances = Annotated[bool, typer.Option("--all", help="Every instance.")]


SETTINGS = {
    ControlKind.BLACKLIST: "recycle.recycle_blacklist",
    ControlKind.WHITELIST: "recycle.recycle_whitelist",
    ControlKind.VAULT_WHITELIST: "recycle.recycler_storage_vault_white_list",
    ControlKind.WINDOW: "recycle.recycle_windows",
}
EFFECTS = {
    ListName.BLACKLIST: "rounds leave it alone, even if it is on the whitelist",
    ListName.WHITELIST: "rounds work only on instances on the whitelist",
    ListName.VAULTS: "rounds delete only in vaults on this list",
    ListName.WINDOWS: "rounds work only inside a window",
}
EFFECTIVE = "effective after the current page, within 5 s"
List = Annotated[ListName, typer.Argument(metavar="LIST", help="blacklist, whitelist, vaults or windows.")]
Name = Annotated[str, typer.Argument(help="Instance; [INSTANCE/]VAULT; window such as 'mon-fri 22:00-06:00 UTC'.")]


def stop(
    reason: Annotated[str, typer.Option(help="Why; other operators will read it.")],
    instance: Instance = None,
    everything: AllInstances = False,
) -> None:
    """Stop deletion of one instance or of all, within 5 s.

    The stop takes effect after the current page. Claimed marks stay claimed, and are finished after `sexton start`.
    Repeatable; needs no Temporal.

    Example: sexton stop shop --reason 'restoring a backup'
    """
    name, reason = _scope(instance, everything), require_reason(reason)
    with open_database() as service, log_call(service, "stop", name, reason=reason, blocks_deletion=True):
        before = [c for c in service.stores.controls.all() if c.kind is ControlKind.STOP and c.name == name]
        service.stores.controls.put(ControlKind.STOP, name, reason)
    what, argument = ("every instance", "--all") if everything else (name, name)
    for control in before:
        first = f"{control.first_reason or control.reason} ({control.first_set_by or control.set_by})"
        typer.echo(f"it was stopped already, since {utc(control.since)}: {printable(first)}; this reason is kept, too")
    typer.echo(f"{what} is stopped, {EFFECTIVE}: no more marks are claimed or deleted")
    typer.echo(f"topics{'' if everything else f' of {name}'} are not purged either")
    typer.echo(f"claimed marks stay claimed, and are finished after: sexton start {argument}")


def start(instance: Instance = None, everything: AllInstances = False, reason: WhyOption = "") -> None:
    """Undo a stop, and show what else still stops the instance. Repeatable; needs no Temporal.

    Example: sexton start shop
    """
    scope = _scope(instance, everything)
    with open_database() as service:
        registry = service.stores.registry
        names = [i.id for i in registry.instances()] if everything else [registry.instance(scope).id]
        store = service.stores.controls
        with log_call(service, "start", scope, reason=reason):
            removed = store.remove(ControlKind.STOP, scope)
        with service.db.read() as c:
            halts = {name: store.halt(c, name) for name in names}
    what = "everything" if everything else scope
    typer.echo(f"{what} is started again, {EFFECTIVE}" if removed else f"{what} was not stopped")
    for name, halt in halts.items():
        if halt is not None:
            typer.echo(f"{name} is still stopped: {halt}")


@lists.command("show")
def show_(which: Annotated[ListName | None, typer.Argument(metavar="[LIST]")] = None) -> None:
    """Print the lists and windows, including those of the settings.

    Example: sexton lists show blacklist
    """
    with open_database() as service:
        controls = service.stores.controls.all()
    names = {kind: name for name, kind in CONTROL_KINDS.items() if which in (None, name)}
    entries = [(names[c.kind], c) for c in controls if c.kind in names]
    if wants_json():
        emit_list([_as_json(name, c) for name, c in entries])
        return
    rows = [(name, c.name, utc_column(c.since), c.set_by, _explanation(c)) for name, c in entries]
    show_table("" if rows else "the lists are empty", ("list", "name", "since (UTC)", "by", "why"), rows)


@lists.command("add")
def add(which: List, name: Name, reason: Annotated[str, typer.Option(help="Why.")] = "") -> None:
    """Add a name to a list, or a window.

    Example: sexton lists add windows 'mon-fri 22:00-06:00 Europe/Berlin'
    """
    blocks = which is ListName.BLACKLIST
    with (
        open_database() as service,
        log_call(service, f"lists add {which}", instance_in(which, name), name, reason, blocks_deletion=blocks),
    ):
        service.stores.controls.put(CONTROL_KINDS[which], name, reason)
    typer.echo(f"{name} is on the list {which}, {EFFECTIVE}: {EFFECTS[which]}")


@lists.command("remove")
def remove(which: List, name: Name, reason: WhyOption = "") -> None:
    """Remove a name from a list, or a window. Entries of the settings can only be removed there.

    Example: sexton lists remove blacklist shop
    """
    from sexton.kernel.errors import BadInput

    kind = CONTROL_KINDS[which]
    with open_database() as service:
        store = service.stores.controls
        with log_call(service, f"lists remove {which}", instance_in(which, name), name, reason):
            removed = store.remove(kind, name)
            if not removed:
                refuse_unknown_name(service, which, name)
        is_empty = not any(c.kind is kind for c in store.all())
    if any(c.kind is kind and c.name == name for c in service.settings.controls()):
        raise BadInput(f"{name} is on the list {which} by the settings: remove it from {_setting(kind)}")
    typer.echo(f"{name} is off the list {which}, {EFFECTIVE}" if removed else f"{name} was not on the list {which}")
    if is_empty and kind is not ControlKind.BLACKLIST:
        typer.echo(f"the list {which} is empty now: it blocks nothing")


def _as_json(name: ListName, control: "Control") -> dict[str, object]:
    values = stable(control)
    del values["kind"]
    return {"list": str(name)} | values | {"removable": control.since is not None}


def _explanation(control: "Control") -> str:
    if control.reason:
        return control.reason
    return "" if control.since else f"set in {_setting(control.kind)}"


def _setting(kind: ControlKind) -> str:
    """Return the setting behind a list, and the place where it is set."""
    from config.settings import explain

    [row] = [e for e in explain() if e.key == SETTINGS[kind]]
    return f"{row.key} ({row.source})"


def _scope(instance: str | None, everything: bool) -> str:
    if (instance is None) == (not everything):
        raise WrongUsage("name an instance, or --all for every instance; exactly one of the two")
    return ALL if instance is None else instance
