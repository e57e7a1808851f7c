"""`sexton stop`, `sexton start`, `sexton lists`: what may go at all. SQL alone; Temporal is never asked."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import Json, WrongUsage, controls, opened, recorded, said
from sexton.interfaces.cli.output import dump, show, stamp
from sexton.operators.controls.model import ALL, ControlKind

if TYPE_CHECKING:
    from config.settings import Settings
    from sexton.database.engine import Database
    from sexton.operators.controls.store import ControlStore

lists = typer.Typer(help="Which instances and vaults may be worked on, and when.", no_args_is_help=True)
Instance = Annotated[str | None, typer.Argument(help="The instance.")]
All = Annotated[bool, typer.Option("--all", help="Every instance.")]


class Lists(StrEnum):
    """The lists, as the command line names them."""

    BLACKLIST = "blacklist"
    WHITELIST = "whitelist"
    VAULTS = "vaults"
    WINDOWS = "windows"


KINDS = {
    Lists.BLACKLIST: ControlKind.BLACKLIST,
    Lists.WHITELIST: ControlKind.WHITELIST,
    Lists.VAULTS: ControlKind.VAULT_WHITELIST,
    Lists.WINDOWS: ControlKind.WINDOW,
}
SETTINGS = {
    ControlKind.BLACKLIST: "recycle.recycle_blacklist",
    ControlKind.WHITELIST: "recycle.recycle_whitelist",
    ControlKind.VAULT_WHITELIST: "recycle.recycler_storage_vault_white_list",
    ControlKind.WINDOW: "recycle.recycle_windows",
}
MEANS = {
    Lists.BLACKLIST: "it is not worked on, whatever the whitelist says",
    Lists.WHITELIST: "only instances on the whitelist are worked on",
    Lists.VAULTS: "only vaults on this list are touched",
    Lists.WINDOWS: "rounds work only inside a window",
}
WITHIN = "effective after the current page, within 5 s"
List = Annotated[Lists, typer.Argument(metavar="LIST", help="blacklist, whitelist, vaults or windows.")]
Name = Annotated[str, typer.Argument(help="Instance; [INSTANCE/]VAULT; window such as 'mon-fri 22:00-06:00 UTC'.")]


def stop(
    reason: Annotated[str, typer.Option(help="Why; others will read it.")],
    instance: Instance = None,
    everything: All = False,
) -> None:
    """Stop deletion of one instance or of all, within 5 s.

    It takes effect after the current page. What is claimed stays claimed, and is finished after `sexton start`.
    Repeatable; needs no Temporal.

    Example: sexton stop shop --reason 'restoring a backup'
    """
    name, reason = _name(instance, everything), said(reason)
    with opened() as (settings, db), recorded(db, "stop", name, reason=reason, keeps=True):
        controls(settings, db).put(ControlKind.STOP, name, reason)
    what, start = ("every instance", "--all") if everything else (name, name)
    typer.echo(f"{what} is stopped, {WITHIN}: nothing more is claimed or deleted")
    if everything:
        typer.echo("topics are not purged either")
    typer.echo(f"what is claimed stays claimed, and is finished after: sexton start {start}")


def start(instance: Instance = None, everything: All = False) -> None:
    """Take a stop back, and name what else still keeps the instance. Repeatable; needs no Temporal.

    Example: sexton start shop
    """
    from sexton.operators.registry.store import Registry

    name = _name(instance, everything)
    with opened() as (settings, db):
        names = [i.id for i in Registry(db).instances()] if everything else [Registry(db).instance(name).id]
        store = controls(settings, db)
        with recorded(db, "start", name):
            was = store.remove(ControlKind.STOP, name)
        with db.read() as c:
            still = {i: halt for i in names if (halt := store.halt(c, i)) is not None}
    what = "everything" if everything else name
    typer.echo(f"{what} is started again, {WITHIN}" if was else f"{what} was not stopped")
    for name, halt in still.items():
        typer.echo(f"{name} is still kept: {halt}")


@lists.command("show")
def show_(which: Annotated[Lists | None, typer.Argument(metavar="[LIST]")] = None, as_json: Json = False) -> None:
    """Print the lists and windows, those of the settings too.

    Example: sexton lists show blacklist
    """
    with opened() as (settings, db):
        found = controls(settings, db).all()
    by_kind = {kind: name for name, kind in KINDS.items() if which in (None, name)}
    chosen = [(by_kind[c.kind], c) for c in found if c.kind in by_kind]
    if as_json:
        dump(
            [
                {"list": name, **c.model_dump(mode="json", exclude={"kind"}), "removable": c.since is not None}
                for name, c in chosen
            ]
        )
        return
    rows = [
        (name, c.name, stamp(c.since), c.set_by, c.reason or ("" if c.since else f"set in {_place(c.kind)}"))
        for name, c in chosen
    ]
    show("" if rows else "nothing is listed", ("list", "name", "since (UTC)", "by", "why"), rows)


@lists.command("add")
def add(which: List, name: Name, reason: Annotated[str, typer.Option(help="Why.")] = "") -> None:
    """Add a name to a list, or a window.

    Example: sexton lists add windows 'mon-fri 22:00-06:00 Europe/Berlin'
    """
    keeps = which is Lists.BLACKLIST
    with opened() as (settings, db), recorded(db, f"lists add {which}", subject=name, reason=reason, keeps=keeps):
        controls(settings, db).put(KINDS[which], name, reason)
    typer.echo(f"{name} is on the list {which}, {WITHIN}: {MEANS[which]}")


@lists.command("remove")
def remove(which: List, name: Name) -> None:
    """Take a name off a list, or a window away. One that the settings name is removed there.

    Example: sexton lists remove blacklist shop
    """
    from sexton.kernel.errors import BadInput

    kind = KINDS[which]
    with opened() as (settings, db):
        store = controls(settings, db)
        with recorded(db, f"lists remove {which}", subject=name):
            was = store.remove(kind, name)
            if not was:
                _known(settings, db, store, which, name)
        left = any(c.kind is kind for c in store.all())
    if any(c.kind is kind and c.name == name for c in settings.controls()):
        raise BadInput(f"{name} is on the list {which} by the settings: take it out of {_place(kind)}")
    typer.echo(f"{name} is off the list {which}, {WITHIN}" if was else f"{name} was not on the list {which}")
    if not left and kind is not ControlKind.BLACKLIST:
        typer.echo(f"the list {which} is empty now: it keeps nothing back")


def _known(settings: "Settings", db: "Database", store: "ControlStore", which: Lists, name: str) -> None:
    """Refuse a name that no list could hold: it is a typing error."""
    from sexton.kernel.errors import BadInput
    from sexton.operators.controls.policy import parse_window
    from sexton.operators.registry.store import Registry

    if any(c.kind is KINDS[which] and c.name == name for c in settings.controls()):
        return
    if which is Lists.WINDOWS:
        parse_window(name)
        if name not in {c.name for c in store.all() if c.kind is ControlKind.WINDOW}:
            raise BadInput(f"there is no window {name!r}; see: sexton lists show windows")
    elif which is Lists.VAULTS:
        vaults = Registry(db).vaults()
        if name not in {v.name for v in vaults} | {f"{v.instance}/{v.name}" for v in vaults}:
            raise BadInput(f"there is no vault {name}; see: sexton vault list")
    else:
        Registry(db).instance(name)


def _place(kind: ControlKind) -> str:
    """Return the setting behind a list, and where it is set."""
    from config.settings import explain

    [row] = [e for e in explain() if e.key == SETTINGS[kind]]
    return f"{row.key} ({row.source})"


def _name(instance: str | None, everything: bool) -> str:
    if (instance is None) == (not everything):
        raise WrongUsage("name an instance, or --all for every instance; exactly one of the two")
    return ALL if instance is None else instance
