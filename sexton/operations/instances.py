"""Instances: the databases and lakes whose garbage Sexton deletes."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from sexton.database import roles
from sexton.kernel.errors import BadInput, WrongUsage
from sexton.kernel.message import Message, Page
from sexton.operations.fields import Covered, Flag, Instance, Remark
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.operators.registry.store import Instance as RegisteredInstance
from sexton.operators.registry.store import check_view_name

Role = Annotated[
    str, Field(max_length=63, description="PostgreSQL role with which the owner logs in, or a role that it has.")
]
View = Annotated[
    str, Field(max_length=200, description="View that shows its live objects: SCHEMA.VIEW; none: it has no such view.")
]


class ShownInstance(RegisteredInstance):
    """An instance. ``roles``: the roles of PostgreSQL that may mark in it."""

    roles: tuple[str, ...] = ()


class InstanceState(Message):
    """An instance, as it is now. ``fault``: why its rounds keep every mark; empty: they need not."""

    instance: str
    mode: str
    fault: str = ""


class InstalledOwner(Message):
    """An owner that is installed here. ``error``: why it cannot be used."""

    owner: str
    package: str
    about: str
    options: tuple[str, ...]
    kinds: tuple[str, ...]
    error: str


@operation("instance list", "GET /v1/instances", Grant.READ, READS)
def instances(call: Call, instance: Covered = None) -> Page[ShownInstance]:
    """Print every instance.

    Example: sexton instance list
    """
    granted: Mapping[str, object] = roles.granted_roles(call.deployment.db)
    rows = [row for row in call.stores.registry.instances() if instance in (None, row.id)]
    shown = (ShownInstance(**row.model_dump(), roles=granted.get(row.id, ())) for row in rows)
    return Page[ShownInstance](items=tuple(shown))


@operation("instance add", "", Grant.ADMIN, Logged("owner {owner}", of=lambda _call, name, **_: name))
def add_instance(
    call: Call,
    name: Annotated[str, Flag(shown="INSTANCE"), Field(description="Instance: lower-case letters, digits, - and _.")],
    *,
    owner: Annotated[str, Field(description="Which owner answers for its marks; see: sexton owner list.")] = "sql",
    option: Annotated[
        tuple[str, ...], Flag(shown="NAME=VALUE"), Field(description="What the owner needs to know of it.")
    ] = (),
    live_view: View = "",
    underscore_in_ids: Annotated[bool, Field(description="Ids may contain _; then no prefix ends with it.")] = False,
) -> InstanceState:
    """Register an instance. It only observes (plans and reports, deletes nothing) until it is enabled.

    Example: sexton instance add shop --live-view shop.sexton_live
    """
    from sexton.owners import plugins

    if live_view:
        check_view_name(live_view)
    if wrong := next((text for text in option if "=" not in text), None):
        raise WrongUsage(f"--option {wrong!r} must be NAME=VALUE")
    options = {key: value for key, _, value in (text.partition("=") for text in option)}
    registry = call.stores.registry
    plugins.add_instance(call.deployment.db, registry, name, owner, options, underscore_in_ids=underscore_in_ids)
    known_view = registry.instance(name).live_view
    if live_view and known_view and live_view != known_view:
        raise BadInput(
            f"instance {name} is registered already, with the live view {known_view}; to change it: sexton "
            f"instance live-view {name} {live_view}"
        )
    if live_view:
        registry.set_live_view(name, live_view)
    return _state(call, name)


def _state(call: Call, name: str) -> InstanceState:
    return InstanceState(
        instance=name, mode=call.stores.registry.instance(name).mode, fault=call.deployment.live_fault(name)
    )


@operation("instance remove", "", Grant.ADMIN, Logged(asks=True))
def remove_instance(call: Call, instance: Instance, *, reason: Remark = "") -> None:
    """Remove an instance that is no longer needed: its grants, settings, journal, binlogs and the records of its owner.

    Refused while it has vaults, marks, rows of keepers (such as holds) or topics that are purged. Its history stays, so
    its name is not used again.

    Example: sexton instance remove shop
    """
    from sexton.owners import plugins

    plugins.remove_instance(call.deployment.db, call.stores.registry, call.stores.keepers, instance)


@operation("instance keys", "", Grant.ADMIN, Logged("{pattern:.200}"))
def set_keys(
    call: Call,
    instance: Instance,
    pattern: Annotated[str, Field(description="A regular expression that every key of the owner's files matches.")],
) -> None:
    r"""Set the pattern of the keys of an instance.

    A check reports an ORPHAN only if its key matches the pattern. A group ``record`` captures the record that a file
    belongs to. Any other group names what else it belongs to, so that a hold on that reaches orphans: a group ``table``
    captures what `sexton hold add --table` names. An empty pattern means that the keys are unknown, so a check reports
    no orphans.

    Example: sexton instance keys shop 'data/[0-9]+/(?P<record>[0-9a-f]+)_[0-9]+\.dat'
    """
    from sexton.owners.plugins import find

    owner = call.stores.registry.instance(instance).owner
    if find(owner).key_pattern:
        raise BadInput(f"owner {owner} knows the keys of {instance}; they need no pattern")
    call.stores.registry.set_key_pattern(instance, pattern)


@operation("instance live-view", "", Grant.ADMIN, Logged("{view}"))
def set_live_view(call: Call, instance: Instance, view: View) -> InstanceState:
    """Name the view that shows the live objects of an instance; rounds keep marks of live objects.

    Until the view can be read, every mark of the instance is kept. With none, nothing protects live objects from wrong
    marks, and a check compares nothing. Name only a view whose owner you trust with the instance.

    Example: sexton instance live-view shop shop.sexton_live
    """
    call.stores.registry.set_live_view(instance, view)
    return _state(call, instance)


@operation("instance grant", "", Grant.ADMIN, Logged("{role}"))
def grant_role(call: Call, instance: Instance, role: Role) -> None:
    """Let a PostgreSQL role mark, prepare, commit and undrop in an instance, and read its marks.

    The role needs the contract's grants first: sexton init --grant-to ROLE

    Example: sexton instance grant shop shop_app
    """
    roles.grant_instance(call.deployment.db, instance, role)


@operation("instance revoke", "", Grant.ADMIN, Logged("{role}"))
def revoke_role(call: Call, instance: Instance, role: Role) -> None:
    """Undo `grant`: the role can neither change nor read marks of the instance.

    Example: sexton instance revoke shop shop_app
    """
    roles.revoke_instance(call.deployment.db, instance, role)


@operation("instance observe", "POST /v1/instances/{instance}/observe", Grant.OPERATE, Logged(keeps=True))
def observe(call: Call, instance: Instance, *, reason: Remark = "") -> InstanceState:
    """Undo `enable`: rounds plan and report, and delete nothing. Marks that are claimed stay claimed, and wait.

    Example: sexton instance observe shop
    """
    call.stores.registry.observe(instance)
    return InstanceState(instance=instance, mode="observe")


@operation("enable", "POST /v1/instances/{instance}/enable", Grant.OPERATE)
def enable(call: Call, instance: Instance, *, reason: Remark = "") -> InstanceState:
    """Allow rounds of an instance to delete. Review a plan first: sexton plan.

    Example: sexton enable shop
    """
    call.deployment.enable(instance)
    return InstanceState(instance=instance, mode="enabled")


@operation("owner list", "GET /v1/owners", Grant.READ, READS)
def owners(_: Call) -> Page[InstalledOwner]:
    """Print the owners that are installed here: what connects a database or a lake.

    Each worker needs the owners of its instances.

    Example: sexton owner list
    """
    from sexton.owners.plugins import installed

    rows = (
        InstalledOwner(
            owner=name,
            package=owner.package,
            about=owner.plugin.about if owner.plugin else "",
            options=tuple(owner.plugin.options.model_fields) if owner.plugin else (),
            kinds=tuple(kind.name for kind in owner.plugin.kinds) if owner.plugin else (),
            error=owner.error,
        )
        for name, owner in sorted(installed().items())
    )
    return Page[InstalledOwner](items=tuple(rows))
