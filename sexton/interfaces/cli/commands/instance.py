"""`sexton instance`, `sexton enable`: register databases, and choose which of them rounds clean."""

from typing import TYPE_CHECKING, Annotated

import typer

from sexton.interfaces.cli.context import OptionalInstance, WhyOption, log_call, named_or_only, open_database
from sexton.interfaces.cli.json_output import emit_list, stable, wants_json
from sexton.interfaces.cli.output import show_table
from sexton.interfaces.wording import utc_column
from sexton.kernel.errors import BadInput

if TYPE_CHECKING:
    from sexton.interfaces.operator_service import OperatorService

app = typer.Typer(help="Instances: the databases and lakes whose garbage Sexton deletes.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="INSTANCE", help="Instance: lower-case letters, digits, - and _.")]
Role = Annotated[str, typer.Argument(help="PostgreSQL role with which the owner logs in, or a role that it has.")]
VIEW_HELP = "View that shows its live objects: SCHEMA.VIEW; none: it has no such view."
PATTERN_CHARACTERS = 200
"""How much of a key pattern the call log records."""


@app.command("add")
def add(
    name: Name,
    owner: Annotated[str, typer.Option(help="Which owner answers for its marks; see: sexton owner list.")] = "sql",
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="What the owner needs to know of it.")
    ] = None,
    live_view: Annotated[str, typer.Option(help=VIEW_HELP)] = "",
    underscore_in_ids: Annotated[
        bool, typer.Option("--underscore-in-ids", help="Ids may contain _; then no prefix ends with it.")
    ] = False,
) -> None:
    """Register an instance. It only observes (plans and reports, deletes nothing) until it is enabled.

    Example: sexton instance add shop --live-view shop.sexton_live
    """
    from sexton.owners.plugins import add_instance

    options = dict(_option(text) for text in option or ())
    with open_database() as service, log_call(service, "instance add", name, owner, live_view):
        registry = service.stores.registry
        add_instance(service.db, registry, name, owner, options, underscore_in_ids=underscore_in_ids)
        known_view = service.stores.registry.instance(name).live_view
        if live_view and known_view and live_view != known_view:
            raise BadInput(
                f"instance {name} is registered already, with the live view {known_view}; to change it: sexton "
                f"instance live-view {name} {live_view}"
            )
        if live_view:
            service.stores.registry.set_live_view(name, live_view)
        instance = registry.instance(name)
        fault = live_fault(service, name)
    mode = instance.mode
    note = f"it observes until: sexton enable {name}" if mode == "observe" else "it was enabled already"
    typer.echo(f"instance {name} is registered; {note}")
    if fault:
        correct = "; if an option is wrong, repeat the command with the right ones"
        typer.echo(f"warning: rounds keep every mark of {name}: {fault}{correct if option else ''}", err=True)


def _option(text: str) -> tuple[str, str]:
    name, is_option, value = text.partition("=")
    if not is_option:
        raise BadInput(f"--option {text!r} must be NAME=VALUE")
    return name, value


@app.command("list")
def list_() -> None:
    """Print every instance.

    Example: sexton instance list
    """
    from sexton.database import roles

    with open_database() as service:
        instances = service.stores.registry.instances()
        granted = roles.granted_roles(service.db)
    if wants_json():
        emit_list([stable(i) | {"roles": granted.get(i.id, [])} for i in instances])
        return
    rows = [
        (
            i.id,
            i.mode,
            i.owner,
            i.live_view,
            ", ".join(granted.get(i.id, [])),
            utc_column(i.created_at),
            utc_column(i.enabled_at),
        )
        for i in instances
    ]
    show_table(
        "" if rows else "no instance is registered; begin with: sexton instance add NAME",
        ("instance", "mode", "owner", "live view", "roles", "registered (UTC)", "enabled (UTC)"),
        rows,
    )


@app.command("keys")
def keys(
    name: Name,
    pattern: Annotated[str, typer.Argument(help="A regular expression that every key of the owner's files matches.")],
) -> None:
    r"""Set the pattern of the keys of an instance.

    A check reports an ORPHAN only if its key matches the pattern. A group ``record`` captures the record that a file
    belongs to. Any other group names what else it belongs to, so that a hold on that reaches orphans: a group ``table``
    captures what `sexton hold add table` names. An empty pattern means that the keys are unknown, so a check reports no
    orphans.

    Example: sexton instance keys shop 'data/[0-9]+/(?P<record>[0-9a-f]+)_[0-9]+\.dat'
    """
    from sexton.owners.plugins import find

    with open_database() as service, log_call(service, "instance keys", name, pattern[:PATTERN_CHARACTERS]):
        owner = service.stores.registry.instance(name).owner
        if find(owner).key_pattern:
            raise BadInput(f"owner {owner} knows the keys of {name}; they need no pattern")
        service.stores.registry.set_key_pattern(name, pattern)
    typer.echo(f"the keys of {name}: {pattern}" if pattern else f"the keys of {name} are unknown")


@app.command("live-view")
def live_view(name: Name, view: Annotated[str, typer.Argument(help=VIEW_HELP)]) -> None:
    """Name the view that shows the live objects of an instance; rounds keep marks of live objects.

    Until the view can be read, every mark of the instance is kept. With none, nothing protects live objects from wrong
    marks, and a check compares nothing. Name only a view whose owner you trust with the instance.

    Example: sexton instance live-view shop shop.sexton_live
    """
    with open_database() as service, log_call(service, "instance live-view", name, view):
        service.stores.registry.set_live_view(name, view)
        fault = live_fault(service, name)
    typer.echo(f"live objects of {name}: {'not shown' if view == 'none' else view}")
    if fault:
        typer.echo(f"warning: rounds keep every mark of {name}: {fault}; check again with: sexton doctor", err=True)


def live_fault(service: "OperatorService", name: str) -> str:
    """Return why rounds cannot learn what is live in an instance; empty: they can, or need not, or it has no vault."""
    from sexton.operators.registry.store import shows_live_objects
    from sexton.owners.port import NoLiveSide, NotAsked, OwnerSilent

    if not shows_live_objects(service.stores.registry.instance(name)):
        return ""
    try:
        service.stores.owners.live(name, (), lambda: None)
        service.stores.live_side.as_of(name)
    except NotAsked:
        return ""
    except (NoLiveSide, OwnerSilent) as e:
        return str(e)
    return ""


@app.command("grant")
def grant(name: Name, role: Role) -> None:
    """Let a PostgreSQL role mark, prepare, commit and undrop in an instance, and read its marks.

    The role needs the contract's grants first: sexton init --grant-to ROLE

    Example: sexton instance grant shop shop_app
    """
    from sexton.database import roles

    with open_database() as service, log_call(service, "instance grant", name, role):
        roles.grant_instance(service.db, name, role)
    typer.echo(f"role {role} may mark, prepare, commit and undrop in instance {name}")


@app.command("revoke")
def revoke(name: Name, role: Role) -> None:
    """Undo `grant`: the role can neither change nor read marks of the instance.

    Example: sexton instance revoke shop shop_app
    """
    from sexton.database import roles

    with open_database() as service, log_call(service, "instance revoke", name, role):
        roles.revoke_instance(service.db, name, role)
    typer.echo(f"role {role} can do nothing in instance {name}")


@app.command("observe")
def observe(name: Name) -> None:
    """Undo `enable`: rounds plan and report, and delete nothing. Marks that are claimed stay claimed, and wait.

    Example: sexton instance observe shop
    """
    with open_database() as service, log_call(service, "observe", name, blocks_deletion=True):
        service.stores.registry.observe(name)
    typer.echo(f"instance {name} only observes; a running round ends before its next claim")


def enable(given: OptionalInstance = None, reason: WhyOption = "") -> None:
    """Allow rounds of an instance to delete. Review a plan first: sexton plan.

    Example: sexton enable shop
    """
    with open_database() as service:
        instance = named_or_only(service, given)
        with log_call(service, "enable", instance, reason=reason):
            service.enable(instance)
    typer.echo(f"instance {instance} is enabled: rounds now delete what is due")
