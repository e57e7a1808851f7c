"""Which instances and vaults rounds may work on, and when."""

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message, Page
from sexton.operations.fields import Flag, Remark, Text
from sexton.operations.registry import READS, Call, Logged, operation
from sexton.operators.access.model import Grant
from sexton.operators.controls.model import ControlKind, ListName

LISTS = {
    ListName.BLACKLIST: (ControlKind.BLACKLIST, "recycle.recycle_blacklist"),
    ListName.WHITELIST: (ControlKind.WHITELIST, "recycle.recycle_whitelist"),
    ListName.VAULTS: (ControlKind.VAULT_WHITELIST, "recycle.recycler_storage_vault_white_list"),
    ListName.WINDOWS: (ControlKind.WINDOW, "recycle.recycle_windows"),
}
"""List → the kind of its entries, and the setting that has entries of it, too."""
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
    names = {kind: name for name, (kind, _) in LISTS.items() if which in (None, name)}
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

    _, key = LISTS[which]
    [row] = [row for row in explain() if row.key == key]
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
    kind, _ = LISTS[which]
    call.stores.controls.put(kind, name, reason, call.by)
    return ListChange(list=which, name=name, listed=True, changed=True, is_empty=False)


@operation("lists remove", "POST /v1/lists/{which}/remove", Grant.OPERATE, LOGGED)
def remove_from_list(call: Call, which: List, name: Name, *, reason: Remark = "") -> ListChange:
    """Remove a name from a list, or a window. Entries of the settings can only be removed there. Repeatable.

    Example: sexton lists remove blacklist shop
    """
    (kind, _), controls = LISTS[which], call.stores.controls
    removed = controls.remove(kind, name)
    others = [c for c in controls.all() if c.kind is kind]
    if any(c.name == name and c.since is None for c in others):
        raise BadInput(f"{name} is on the list {which} by the settings: remove it from {_setting(which)}")
    if not removed:  # a name that no list could contain is a typing error
        controls.check_name(kind, name)
        if which is ListName.WINDOWS:
            raise BadInput(f"there is no window {name!r}; see: sexton lists show windows")
    return ListChange(list=which, name=name, listed=False, changed=removed, is_empty=not others)
