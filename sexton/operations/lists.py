"""Which instances and vaults rounds may work on, and when."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message, Page
from sexton.operations.fields import Flag, Remark, Text
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.operators.controls.model import ControlKind, ListName

if TYPE_CHECKING:
    from sexton.deployment import Deployment

CONTROL_KINDS = {
    ListName.BLACKLIST: ControlKind.BLACKLIST,
    ListName.WHITELIST: ControlKind.WHITELIST,
    ListName.VAULTS: ControlKind.VAULT_WHITELIST,
    ListName.WINDOWS: ControlKind.WINDOW,
}
SETTINGS = {
    ListName.BLACKLIST: "recycle.recycle_blacklist",
    ListName.WHITELIST: "recycle.recycle_whitelist",
    ListName.VAULTS: "recycle.recycler_storage_vault_white_list",
    ListName.WINDOWS: "recycle.recycle_windows",
}
"""List → the setting that has entries of it, too."""
List = Annotated[ListName, Flag(shown="LIST"), Field(description="blacklist, whitelist, vaults or windows.")]
Name = Annotated[Text, Field(description="Instance; [INSTANCE/]VAULT; window such as 'mon-fri 22:00-06:00 UTC'.")]


class ListEntry(Message):
    """An entry of a list. ``removable``: it is in the database; otherwise a setting has it."""

    list: ListName
    name: str
    since_at: int | None
    set_by: str
    reason: str
    removable: bool


class ListChange(Message):
    """Whether an entry is on a list now; ``is_empty``: whether the list has no other."""

    list: ListName
    name: str
    listed: bool
    changed: bool
    is_empty: bool


@operation("lists show", "GET /v1/lists", Grant.READ, READS)
def lists(
    call: Call, which: Annotated[ListName | None, Flag(shown="LIST"), Field(description="Only it.")] = None
) -> Page[ListEntry]:
    """Print the lists and windows, including those of the settings.

    Example: sexton lists show blacklist
    """
    names = {kind: name for name, kind in CONTROL_KINDS.items() if which in (None, name)}
    entries = (
        ListEntry(
            list=names[c.kind],
            name=c.name,
            since_at=c.since,
            set_by=c.set_by,
            reason=c.reason or ("" if c.since else f"set in {_setting(names[c.kind])}"),
            removable=c.since is not None,
        )
        for c in call.stores.controls.all()
        if c.kind in names
    )
    return Page[ListEntry](items=tuple(entries))


def _setting(which: ListName) -> str:
    """Return the setting behind a list, and the place where it is set."""
    from config.settings import explain

    [row] = [row for row in explain() if row.key == SETTINGS[which]]
    return f"{row.key} ({row.source})"


LOGGED = Logged("{which} {name}", of=lambda _, which, name, **__: name if which is ListName.BLACKLIST else "")
"""``of``: the only instance that an entry affects; empty: it affects others, as those that a whitelist lacks."""


@operation(
    "lists add",
    "POST /v1/lists/{which}/add",
    Grant.OPERATE,
    replace(LOGGED, keeps=lambda which, **_: which is ListName.BLACKLIST),
)
def add_to_list(call: Call, which: List, name: Name, *, reason: Remark = "") -> ListChange:
    """Add a name to a list, or a window; effective after the current page, within 5 s. Repeatable.

    Example: sexton lists add windows 'mon-fri 22:00-06:00 Europe/Berlin'
    """
    call.stores.controls.put(CONTROL_KINDS[which], name, reason, call.by)
    return ListChange(list=which, name=name, listed=True, changed=True, is_empty=False)


@operation("lists remove", "POST /v1/lists/{which}/remove", Grant.OPERATE, LOGGED)
def remove_from_list(call: Call, which: List, name: Name, *, reason: Remark = "") -> ListChange:
    """Remove a name from a list, or a window. Entries of the settings can only be removed there. Repeatable.

    Example: sexton lists remove blacklist shop
    """
    kind, controls = CONTROL_KINDS[which], call.stores.controls
    removed = controls.remove(kind, name)
    if not removed:
        _refuse_unknown_name(call.deployment, which, name)
    if any(c.kind is kind and c.name == name for c in call.deployment.settings.controls()):
        raise BadInput(f"{name} is on the list {which} by the settings: remove it from {_setting(which)}")
    is_empty = not any(c.kind is kind for c in controls.all())
    return ListChange(list=which, name=name, listed=False, changed=removed, is_empty=is_empty)


def _refuse_unknown_name(deployment: "Deployment", which: ListName, name: str) -> None:
    """Refuse a name that no list could contain: it is a typing error."""
    from sexton.operators.controls.policy import parse_window

    if any(c.kind is CONTROL_KINDS[which] and c.name == name for c in deployment.settings.controls()):
        return
    if which is ListName.WINDOWS:
        parse_window(name)
        if name not in {c.name for c in deployment.stores.controls.all() if c.kind is ControlKind.WINDOW}:
            raise BadInput(f"there is no window {name!r}; see: sexton lists show windows")
    elif which is ListName.VAULTS:
        vaults = deployment.stores.registry.vaults()
        if name not in {v.name for v in vaults} | {f"{v.instance}/{v.name}" for v in vaults}:
            raise BadInput(f"there is no vault {name}; see: sexton vault list")
    else:
        deployment.stores.registry.instance(name)
